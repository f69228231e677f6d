"""What tests of protocols share: machines alone and in a crowd, obvious twins, toys."""
