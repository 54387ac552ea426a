"""Pseudonyms hide words and keep structure."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotrace.traces.sharing.pseudonyms import (
    PseudonymError,
    Pseudonyms,
    is_keyed_name,
    is_keyed_path,
)

KEY = bytes(range(32))
W = "[bcdfghjklmnpqrstvwxz]{10}"


@pytest.mark.parametrize(
    ("part", "pattern"),
    [
        ("__0_0.distcp", r"__0_0\.distcp"),
        (".metadata.tmp", r"\.metadata\.tmp"),
        ("model_00001-of-00004.safetensors", r"model_00001-of-00004\.safetensors"),
        ("mine_00001-of-00004.safetensors", rf"{W}_00001-of-00004\.safetensors"),
        ("zero_pp_rank_0_mp_rank_00_optim_states.pt", None),
        ("step100", rf"{W}100"),
        ("rank_3", rf"{W}_3"),
        ("mine-7.pt.tmp", rf"{W}\.pt\.tmp"),
        ("mine_shard-7.pt.tmp", rf"{W}-7\.pt\.tmp"),
        ("rank_0.bin", rf"{W}_0\.bin"),
        ("epoch=3-step=1000.ckpt", rf"{W}=3-{W}=1000\.ckpt"),
        ("w_pp-rank-0-of-1_tp-rank-3-of-8.pt", rf"{W}-0-of-1_{W}-3-of-8\.pt"),
        ("step_000100", rf"{W}_000100"),
        ("global_step2000", "global_step2000"),
        ("mp_rank_00_001", "mp_rank_00_001"),
        (".hidden.json", rf"\.{W}\.json"),
        ("model.pt", rf"{W}\.pt"),
        ("0042", "0042"),
        # What counts nothing is keyed with its numbers.
        ("jd58311", W),
        ("proj42", W),
        ("20261130", W),
        ("123456", W),
        ("2026-11-30_run", W),
        ("run-2026_11_30.pt", rf"{W}\.pt"),
        ("10.0.3.7", W),
        ("9b9b8112-52bf-4d9f-b011-1bd3dc317e0a", W),
        ("step1234567", W),
        ("ckpt_241105_143015.pt", rf"{W}\.pt"),
        ("save-5-11-2024.pt", rf"{W}\.pt"),
        ("state-2024-1-5.pt", rf"{W}\.pt"),
        ("ckpt-2024-11.pt", rf"{W}\.pt"),
        ("step_10_5_2024", W),
        ("slurm-481512.log", rf"{W}\.log"),
        ("user-105432.pt", rf"{W}\.pt"),
        ("user-10543.pt", rf"{W}\.pt"),
        ("rank-241105", W),
        ("step-192-168-7.pt", rf"{W}\.pt"),
        ("step_2024", W),
        ("2024", W),
        ("model-241105.pt", rf"{W}\.pt"),
        ("model-2024.pt", rf"{W}\.pt"),
        ("11-of-5", W),
        ("20241105_rank_3.pt", rf"{W}_3\.pt"),
        ("a.mine", W),
        ("café-3.pt", rf"{W}\.pt"),
    ],
)
def test_a_component_keeps_numbering_and_extension_alone(part: str, pattern: str | None) -> None:
    """Rows of one table, so that the policy can be read here."""
    given_part = Pseudonyms(KEY).path(f"/x/{part}").rpartition("/")[2]
    assert re.fullmatch(re.escape(part) if pattern is None else pattern, given_part), given_part


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("/2024/11/05/x.pt", rf"/{W}/{W}/{W}/{W}\.pt"),
        ("/2024//11/./05.pt", rf"/{W}//{W}/\./{W}\.pt"),
        ("/100/rank_3/0.pt", rf"/100/{W}_3/0\.pt"),
        ("/24/11", rf"/24/{W}"),
    ],
)
def test_a_number_below_a_number_is_keyed(path: str, pattern: str) -> None:
    """Years, months and days have folders; a parent is called as it is on its own."""
    given_path = Pseudonyms(KEY).path(path)
    assert re.fullmatch(pattern, given_path), given_path
    parent = path.rpartition("/")[0]
    assert Pseudonyms(KEY).path(parent) == given_path.rpartition("/")[0]


@pytest.mark.parametrize(
    "path", ["/24/11/05", f"/{'b' * 10}-2024.pt", f"/{'b' * 10}_10_5", f"/{'b' * 10}-241105.pt"]
)
def test_a_date_is_not_of_the_form(path: str) -> None:
    """A shared trace of another version that has one is told."""
    assert not is_keyed_path(path)


def test_layer_indices_stay_in_names() -> None:
    """A receiver must see which tensors are of one layer."""
    name = Pseudonyms(KEY).name("encoder.h.11.attn_2.weight")
    assert re.fullmatch(rf"{W}\.{W}\.11\.{W}_2\.{W}", name)


def test_one_key_gives_one_name_and_another_key_another() -> None:
    """Linkable sets, and sets that cannot be linked."""
    path = "/home/alice/step100/x.pt"
    assert Pseudonyms(KEY).path(path) == Pseudonyms(KEY).path(path)
    assert Pseudonyms(KEY).path(path) != Pseudonyms(KEY[::-1]).path(path)


def test_a_short_key_is_refused() -> None:
    """It could be guessed, and every pseudonym with it."""
    with pytest.raises(PseudonymError, match="at least 16 bytes"):
        Pseudonyms(b"secret")


TEXT = st.text(st.characters(codec=None, exclude_characters="\0"), max_size=300)
COMPONENTS = st.from_regex(r"[a-z0-9._-]{1,24}", fullmatch=True)


@given(st.lists(TEXT | COMPONENTS, max_size=6).map("/".join))
def test_every_path_gets_one_name_of_the_known_form(path: str) -> None:
    """Also with bytes that are not UTF-8; depth stays, and no part outgrows a file name."""
    given_path = Pseudonyms(KEY).path(path)
    assert is_keyed_path(given_path)
    assert given_path.count("/") == path.count("/")
    assert max(len(part) for part in given_path.split("/")) <= 250
    assert given_path.isascii()


@given(st.lists(COMPONENTS, min_size=2, max_size=2, unique=True))
def test_different_components_stay_different(parts: list[str]) -> None:
    """Or two files of the trace would become one."""
    names = Pseudonyms(KEY)
    assert names.path(parts[0]) != names.path(parts[1])


@given(TEXT)
def test_every_name_gets_the_known_form(name: str) -> None:
    assert is_keyed_name(Pseudonyms(KEY).name(name))


@given(st.from_regex(r"[a-z]{3,9}[0-9]{0,3}([-_][a-z]{3,9})?(\.pt)?", fullmatch=True))
def test_no_word_survives(part: str) -> None:
    """The letters of a part that no engine chose are gone."""
    shown = Pseudonyms(KEY).path(f"x{part}")
    words = re.findall("[a-z]+", shown.removesuffix(".pt"))
    assert all(re.fullmatch(W, word) for word in words)
