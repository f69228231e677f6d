"""Local networks of live nodes in processes of their own: what ``vinecast net`` runs."""
