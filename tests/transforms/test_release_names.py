"""Names that not every release of a target has."""

from __future__ import annotations

from helpers import migrate
from replicated import launched

from xla_transforms.settings import Settings

SAGEMAKER = Settings(target="sagemaker")
WRAPPED = launched("model = DDP(torch.nn.Linear(2, 2).cuda())")


def told(code: str, settings: Settings | None = None) -> list[str]:
    return [f.message for f in migrate(code, settings=settings).findings if f.code == "XLA938"]


def test_a_target_of_one_release_has_all_names() -> None:
    assert told(WRAPPED) == []
    assert told(WRAPPED, Settings(target="2.1")) == []


def test_what_is_not_written_is_no_matter() -> None:
    assert told(launched("model = torch.nn.Linear(2, 2).cuda()"), SAGEMAKER) == []


def test_a_broadcast_needs_a_newer_container() -> None:
    message = "xm.collective_broadcast came with torch_xla 1.13: older containers raise an error here"
    assert told(WRAPPED, SAGEMAKER) == [message]
