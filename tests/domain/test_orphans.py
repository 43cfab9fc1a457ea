"""Who answers for an engine, from nothing but a process table."""

from __future__ import annotations

import pytest

from pdctl.domain.orphans import (
    Kind,
    Ours,
    Process,
    Shim,
    classify,
    families,
    owner_of,
    part_of,
    shim_home,
    summary,
)

VLLM = ("/opt/vllm/bin/python", "-m", "vllm.entrypoints.openai.api_server", "--model", "m")
SIMULATED = ("python3.12", "-m", "pdctl.simulated", "--port", "18000")
CORE, WORKER = ("VLLM::EngineCore",), ("VLLM::Worker_TP0",)
TRACKER = ("python", "-c", "from multiprocessing.resource_tracker import main; main(5)")
OURS = Ours("/state/run", {"abcdef0123456789": "decode-0"})


def process(
    pid: int, words: tuple[str, ...], parent: int = 1, *, group: int = 0, nonce: str = "",
    ports: tuple[int, ...] = (), memory: int | None = None,
) -> Process:  # fmt: skip
    env = (("PDCTL_NONCE", nonce),) if nonce else ()
    return Process(
        pid, pid * 10, parent, group or pid, words, env=env, ports=ports, memory=memory
    )  # fmt: skip


def table(*processes: Process) -> dict[int, Process]:
    return {one.pid: one for one in processes}


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (VLLM, "vLLM API server"),
        (("/opt/bin/python3", "/opt/bin/vllm", "serve", "m"), "vLLM API server"),
        (("vllm", "serve", "m"), "vLLM API server"),
        (SIMULATED, "simulated engine"),
        (CORE, "EngineCore"),
        (("pd-decode-0-abcdef01::Worker_DP0_TP1",), "Worker"),
        (("VLLM::DPCoordinator",), "DPCoordinator"),
        (("bash", "-c", "python -m vllm.entrypoints.openai.api_server"), ""),
        (("grep", "vllm", "serve"), ""),
        (("timeout", "60", *VLLM), ""),
        (("python", "-m", "pytest", "tests/simulated"), ""),
        ((), ""),
    ],
)
def test_an_engine_is_known_by_its_command_line_or_title(words: tuple[str, ...], part: str) -> None:
    assert part_of(words) == part


def test_a_shim_names_the_folder_of_its_start() -> None:
    words = ("python", "-S", "-E", "/x/pdctl/shim/__main__.py", "/state/run/abcd", "3")
    assert shim_home(words) == "/state/run/abcd"
    assert not shim_home(VLLM)


def test_a_family_is_its_leader_and_all_below() -> None:
    found = families(
        table(
            process(1, ("init",), 0),
            process(10, VLLM, ports=(18000,), memory=100),
            process(11, CORE, 10, memory=200),
            process(12, WORKER, 11, ports=(18100,)),
            process(13, TRACKER, 10),
            process(20, SIMULATED),
            process(30, ("bash",)),
        )
    )
    assert [one.leader.pid for one in found] == [10, 20]
    assert {one.pid for one in found[0].members} == {10, 11, 12, 13}
    assert found[0].key == "10-100"
    assert (found[0].ports, found[0].memory) == ((18000, 18100), 300)
    assert found[1].memory is None, "nothing is known: not zero"


def test_an_engine_started_by_hand_is_foreign_and_says_by_whom() -> None:
    (family,) = families(table(process(5, ("/bin/bash",)), process(10, VLLM, 5)))
    found = classify(family, OURS)
    assert (found.kind, found.supervised) == (Kind.FOREIGN, False)
    assert "its parent is bash (pid 5)" in found.why


def test_what_lost_its_api_server_is_orphaned_and_one_family_by_its_group() -> None:
    lost = table(
        process(11, CORE, 1, group=10), process(12, WORKER, 11, group=10),
        process(14, CORE, 1, group=10), process(21, CORE, 1, group=20),
    )  # fmt: skip
    found = families(lost)
    assert [{one.pid for one in family.members} for family in found] == [{11, 12, 14}, {21}]
    one = classify(found[0], OURS)
    assert one.kind is Kind.ORPHANED
    assert "API server is gone" in one.why


@pytest.mark.parametrize(
    ("shim", "kind", "said"),
    [
        (Shim(9, "/state/run", "abcdef0123456789", "decode-0"), Kind.ADOPTED, "decode-0 of this"),
        (Shim(9, "/state/run", "1111111111111111"), Kind.ORPHANED, "no instance answers for it"),
        (Shim(9, "/other/run", "22", "prefill-0", served=True), Kind.FOREIGN, "which runs now"),
        (Shim(9, "/other/run", "22", "prefill-0"), Kind.FOREIGN, "prefill-0 of the pdctl"),
    ],
)
def test_a_living_shim_says_whose_it_is(shim: Shim, kind: Kind, said: str) -> None:
    words = ("python", "-S", "-E", "/x/pdctl/shim/__main__.py", f"{shim.folder}/{shim.nonce}")
    (family,) = families(table(process(9, words), process(10, SIMULATED, 9)), [shim])
    found = classify(family, OURS)
    assert found.kind is kind
    assert said in found.why
    assert found.supervised


def test_an_attached_engine_is_no_child_of_its_shim() -> None:
    shim = Shim(9, "/state/run", "abcdef0123456789", "decode-0", leader=(10, 100))
    reused = Shim(9, "/state/run", "abcdef0123456789", "decode-0", leader=(10, 99))
    engine = table(process(9, ("shim",)), process(10, SIMULATED))
    assert classify(families(engine, [shim])[0], OURS).kind is Kind.ADOPTED
    assert classify(families(engine, [reused])[0], OURS).kind is Kind.FOREIGN


@pytest.mark.parametrize(
    ("one", "instance"),
    [
        (process(10, SIMULATED, nonce="abcdef0123456789"), "decode-0"),
        (process(10, ("pd-decode-0-abcdef01::EngineCore",)), "decode-0"),
        (process(10, ("pd-decode-0-ffffffff::EngineCore",)), ""),
    ],
)
def test_a_start_without_its_supervisor_is_orphaned(one: Process, instance: str) -> None:
    found = classify(families(table(one))[0], OURS)
    assert (found.kind, found.instance) == (Kind.ORPHANED, instance)
    assert "its supervisor is gone" in found.why


def test_the_note_tells_of_orphans_only_and_the_holder_of_a_port_is_found() -> None:
    found = [
        classify(one, OURS)
        for one in families(
            table(
                process(10, VLLM, ports=(18000,)),
                process(11, CORE, 1, group=99, memory=3 * 2**30, ports=(18101,)),
            )
        )
    ]
    assert summary(found) == (
        "1 orphaned engine holds 3.0 GiB of memory, port 18101 on this machine; see: pdctl orphans"
    )
    assert summary(found[:1]) == ""
    assert owner_of(18000, found) is found[0]
    assert owner_of(1, found) is None
