"""Configuration: read strictly, refused in one sentence that names the key, and written back unchanged."""

import math
import tomllib
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vinecast.core.config import as_table, check, limited, read
from vinecast.core.errors import InputError


@dataclass(frozen=True, slots=True)
class Window:
    """A leaf with a required field, and a rule between two of its fields."""

    low: float = limited(at_least=0)
    high: float = limited(10.0, above=0, at_most=100)

    def __post_init__(self) -> None:
        check(self)
        if self.high <= self.low:
            raise InputError(f"high ({self.high}) must be above low ({self.low})")


@dataclass(frozen=True, slots=True)
class Layer:
    """A table in a table."""

    view_size: int = limited(20, at_least=1, at_most=1000)
    kind: str = limited("ring", one_of=("ring", "tree"))
    window: Window = field(default_factory=lambda: Window(1.0))
    spare: Window | None = None
    windows: tuple[Window, ...] = ()

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True, slots=True)
class Whole:
    """Everything that a configuration may hold."""

    name: str
    seed: int = limited(at_least=0)
    share: float | None = limited(None, at_least=0, at_most=1)
    count: int | None = None
    ratio: float = 0.5
    quiet: bool = False
    sizes: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    names: tuple[str, ...] = ()
    layer: Layer = field(default_factory=Layer)
    layers: tuple[Layer, ...] = ()


NEEDED = {"name": "x", "seed": 1}


def refused(table: object, where: str = "", cls: type[Any] = Whole) -> str:
    """The one sentence with which a table is turned down."""
    with pytest.raises(InputError) as caught:
        read(cls, table, where)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert not sentence.endswith(".")
    assert type(caught.value) is InputError
    return sentence


def refused_with(extra: dict[str, object], where: str = "") -> str:
    return refused({**NEEDED, **extra}, where)


# What is accepted


def test_defaults_fill_what_is_not_said() -> None:
    assert read(Whole, NEEDED) == Whole("x", 1)
    assert read(Layer, {}) == Layer(20, "ring", Window(1.0, 10.0), None, ())


def test_everything_said() -> None:
    table = {
        "name": "all",
        "seed": 2**63,
        "share": 0.25,
        "count": 3,
        "ratio": -1.5,
        "quiet": True,
        "sizes": [1, 2],
        "weights": [0.5, 2],
        "names": ["a", ""],
        "layer": {"view_size": 5, "window": {"low": 2}, "spare": {"low": 3.5, "high": 4}},
        "layers": [{}, {"kind": "tree", "windows": [{"low": 1}, {"low": 2}]}],
    }
    assert read(Whole, table) == Whole(
        name="all",
        seed=2**63,
        share=0.25,
        count=3,
        ratio=-1.5,
        quiet=True,
        sizes=(1, 2),
        weights=(0.5, 2.0),
        names=("a", ""),
        layer=Layer(view_size=5, window=Window(2.0), spare=Window(3.5, 4.0)),
        layers=(Layer(), Layer(kind="tree", windows=(Window(1.0), Window(2.0)))),
    )


def test_a_whole_number_is_a_number_and_becomes_one() -> None:
    made = read(Whole, {**NEEDED, "ratio": 3, "share": 1, "weights": [1, 2]})
    assert (type(made.ratio), type(made.share)) == (float, float)
    assert [type(weight) for weight in made.weights] == [float, float]


def test_lists_may_be_tuples() -> None:
    assert read(Whole, {**NEEDED, "sizes": (1, 2)}).sizes == (1, 2)


def test_limits_include_their_ends() -> None:
    assert [read(Layer, {"view_size": size}).view_size for size in (1, 1000)] == [1, 1000]
    assert [read(Whole, {**NEEDED, "share": share}).share for share in (0, 1)] == [0.0, 1.0]
    assert read(Window, {"low": 0, "high": 5e-324}).high > 0


# What is refused


def test_unknown_keys() -> None:
    assert refused_with({"sed": 1}) == "unknown key sed (did you mean seed?)"
    assert refused_with({"layer": {"veiw_size": 3}}) == (
        "unknown key layer.veiw_size (did you mean view_size?)"
    )
    assert refused_with({"layers": [{}, {"windows": [{"lov": 1}]}]}, "run") == (
        "unknown key run.layers[1].windows[0].lov (did you mean low?)"
    )
    assert refused({"zzz": 1}, "w", Window) == "unknown key w.zzz (known here: low, high)"


def test_missing_keys() -> None:
    assert refused({"seed": 1}) == "name is missing"
    assert refused({"name": "x"}) == "seed is missing"
    assert refused({}, "run") == "run.name is missing"
    assert refused_with({"layer": {"window": {"high": 2}}}) == "layer.window.low is missing"
    assert refused_with({"layer": {"windows": [{"low": 1}, {}]}}) == "layer.windows[1].low is missing"
    assert refused_with({"layer": {"spare": {}}}, "run") == "run.layer.spare.low is missing"


def test_what_is_no_table() -> None:
    assert refused([]) == "the configuration must be a table, not a list"
    assert refused(3, "run") == "run must be a table, not a whole number"
    assert refused_with({"layer": "ring"}) == "layer must be a table, not a string"
    assert refused_with({"layers": [{}, 1.5]}) == "layers[1] must be a table, not a fraction"
    assert refused_with({"layer": {"spare": True}}) == "layer.spare must be a table, not a boolean"
    assert refused_with({"layers": {}}) == "layers must be a list, not a table"
    assert refused_with({"layers": "ring"}) == "layers must be a list, not a string"


WRONG: list[tuple[str, object, str]] = [
    ("name", 1, "name must be a string, not a whole number"),
    ("name", ["x"], "name must be a string, not a list"),
    ("name", b"x", "name must be a string, not bytes"),
    ("seed", "1", "seed must be a whole number, not a string"),
    ("seed", 1.0, "seed must be a whole number, not a fraction"),
    ("seed", True, "seed must be a whole number, not a boolean"),
    ("count", False, "count must be a whole number, not a boolean"),
    ("count", 0.5, "count must be a whole number, not a fraction"),
    ("count", {}, "count must be a whole number, not a table"),
    ("ratio", "0.5", "ratio must be a number, not a string"),
    ("ratio", True, "ratio must be a number, not a boolean"),
    ("ratio", [], "ratio must be a number, not a list"),
    ("share", False, "share must be a number, not a boolean"),
    ("quiet", 1, "quiet must be true or false, not a whole number"),
    ("quiet", "yes", "quiet must be true or false, not a string"),
    ("sizes", 1, "sizes must be a list, not a whole number"),
    ("sizes", [1, True], "sizes[1] must be a whole number, not a boolean"),
    ("sizes", [1, 2, 0.5], "sizes[2] must be a whole number, not a fraction"),
    ("weights", [True], "weights[0] must be a number, not a boolean"),
    ("weights", [0.5, "1"], "weights[1] must be a number, not a string"),
    ("names", ["a", 1], "names[1] must be a string, not a whole number"),
    ("names", ["a", ["b"]], "names[1] must be a string, not a list"),
]


@pytest.mark.parametrize(("key", "value", "sentence"), WRONG)
def test_wrong_types(key: str, value: object, sentence: str) -> None:
    assert refused_with({key: value}) == sentence
    assert refused_with({key: value}, "runs[2]") == f"runs[2].{sentence}"


LIMITS: list[tuple[dict[str, object], str]] = [
    ({"seed": -1}, "seed must be at least 0, not -1"),
    ({"share": -0.5}, "share must be at least 0, not -0.5"),
    ({"share": 2}, "share must be at most 1, not 2.0"),
    ({"layer": {"view_size": 0}}, "layer.view_size must be at least 1, not 0"),
    ({"layer": {"view_size": 1001}}, "layer.view_size must be at most 1000, not 1001"),
    ({"layer": {"window": {"low": 1, "high": 0}}}, "layer.window.high must be greater than 0, not 0.0"),
    ({"layer": {"spare": {"low": -1}}}, "layer.spare.low must be at least 0, not -1.0"),
    ({"layers": [{}, {"kind": "star"}]}, 'layers[1].kind must be one of "ring", "tree", not "star"'),
    ({"layers": [{"windows": [{"low": -2}]}]}, "layers[0].windows[0].low must be at least 0, not -2.0"),
]


@pytest.mark.parametrize(("extra", "sentence"), LIMITS)
def test_values_outside_their_limits(extra: dict[str, object], sentence: str) -> None:
    assert refused_with(extra) == sentence
    assert refused_with(extra, "run") == f"run.{sentence}"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_must_be_finite(value: float) -> None:
    assert refused_with({"ratio": value}) == f"ratio must be a finite number, not {value}"
    assert refused_with({"share": value}) == f"share must be a finite number, not {value}"
    assert refused_with({"layer": {"window": {"low": value}}}, "run") == (
        f"run.layer.window.low must be a finite number, not {value}"
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_in_lists_must_be_finite(value: float) -> None:
    assert refused_with({"weights": [1.0, value]}) == f"weights[1] must be a finite number, not {value}"


def test_whole_numbers_beyond_the_floats_are_refused() -> None:
    assert refused_with({"ratio": 10**400}) == "ratio is too large a number"


@pytest.mark.parametrize("extra", [{"layer": {"kind": "a\nb"}}, {"a\nb": 1}])
def test_a_sentence_stays_on_its_line(extra: dict[str, object]) -> None:
    assert refused_with(extra)


def test_errors_of_the_whole_table_carry_its_path() -> None:
    sentence = "high (1.0) must be above low (2.0)"
    bad = {"low": 2, "high": 1}
    assert refused(bad, cls=Window) == sentence
    assert refused(bad, "w", Window) == f"w: {sentence}"
    assert refused_with({"layer": {"spare": bad}}) == f"layer.spare: {sentence}"
    assert refused_with({"layers": [{}, {"windows": [{"low": 1}, bad]}]}, "run") == (
        f"run.layers[1].windows[1]: {sentence}"
    )


def test_python_callers_are_checked_too() -> None:
    for make, sentence in (
        (lambda: Window(-1.0), "low must be at least 0, not -1.0"),
        (lambda: Window(2.0, 1.0), "high (1.0) must be above low (2.0)"),
        (lambda: Window(math.nan), "low must be a finite number, not nan"),
        (lambda: Layer(0), "view_size must be at least 1, not 0"),
        (lambda: Layer(kind="star"), 'kind must be one of "ring", "tree", not "star"'),
    ):
        with pytest.raises(InputError) as caught:
            make()
        assert str(caught.value) == sentence


def test_check_names_the_path_that_it_is_given() -> None:
    check(Whole("x", 1), "run")
    with pytest.raises(InputError, match=r"^run\.share must be at most 1, not 2$"):
        check(Whole("x", 1, share=2), "run")
    with pytest.raises(InputError, match=r"^seed must be at least 0, not -1$"):
        check(Whole("x", -1))


# There and back


def test_as_table_leaves_out_what_is_unset() -> None:
    assert as_table(Whole("x", 1, share=0.5, sizes=(1, 2), layers=(Layer(windows=(Window(2.0),)),))) == {
        "name": "x",
        "seed": 1,
        "share": 0.5,
        "ratio": 0.5,
        "quiet": False,
        "sizes": [1, 2],
        "weights": [],
        "names": [],
        "layer": {"view_size": 20, "kind": "ring", "window": {"low": 1.0, "high": 10.0}, "windows": []},
        "layers": [
            {
                "view_size": 20,
                "kind": "ring",
                "window": {"low": 1.0, "high": 10.0},
                "windows": [{"low": 2.0, "high": 10.0}],
            }
        ],
    }


numbers = st.floats(allow_nan=False, allow_infinity=False)
whole_numbers = st.integers(-(2**63), 2**63 - 1)
texts = st.text(st.characters(codec="utf-8"), max_size=5)
windows = st.builds(Window, st.floats(0, 49), st.floats(50, 100))
layers = st.builds(
    Layer,
    view_size=st.integers(1, 1000),
    kind=st.sampled_from(("ring", "tree")),
    window=windows,
    spare=st.none() | windows,
    windows=st.lists(windows, max_size=3).map(tuple),
)
wholes = st.builds(
    Whole,
    name=texts,
    seed=st.integers(0, 2**63 - 1),
    share=st.none() | st.floats(0, 1),
    count=st.none() | whole_numbers,
    ratio=numbers,
    quiet=st.booleans(),
    sizes=st.lists(whole_numbers, max_size=3).map(tuple),
    weights=st.lists(numbers, max_size=3).map(tuple),
    names=st.lists(texts, max_size=3).map(tuple),
    layer=layers,
    layers=st.lists(layers, max_size=3).map(tuple),
)


@settings(max_examples=100, deadline=None)
@given(wholes)
def test_what_is_written_reads_back(config: Whole) -> None:
    assert read(Whole, as_table(config)) == config


@settings(max_examples=50, deadline=None)
@given(wholes)
def test_what_is_written_is_toml(config: Whole) -> None:
    tomli_w = pytest.importorskip("tomli_w")
    assert read(Whole, tomllib.loads(tomli_w.dumps(as_table(config)))) == config


anything: st.SearchStrategy[object] = st.recursive(
    st.none() | st.booleans() | whole_numbers | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
keys = st.sampled_from([*Whole.__dataclass_fields__, *Layer.__dataclass_fields__]) | texts


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(keys, anything, max_size=4), st.dictionaries(keys, anything, max_size=3))
def test_whatever_is_read_is_valid_or_refused(table: dict[str, object], layer: dict[str, object]) -> None:
    try:
        made = read(Whole, {**NEEDED, **table, "layer": layer})
    except InputError:
        return
    assert type(made.seed) is type(made.layer.view_size) is int
    assert type(made.ratio) is float
    assert math.isfinite(made.ratio)
    check(made)
    check(made.layer)
