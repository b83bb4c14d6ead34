"""Texts of the page."""

from stepscope.app.formatting import shorten_ids

ASSEMBLY = "assembly_nusar-2021_action_both_9011-a01_9011_user_id_2021-02-01_153724"
OTHER = "assembly_nusar-2021_action_both_9012-b02_9012_user_id_2021-02-01_161530"


def test_long_ids_lose_what_all_begin_with_and_else_what_does_not_tell_them_apart() -> None:
    assert list(shorten_ids(["boat", ASSEMBLY, OTHER]).values()) == [
        "boat",
        "…9011-a01_9011_user_id_2021-02-01…",
        "…9012-b02_9012_user_id_2021-02-01…",
    ]
    mixed = [ASSEMBLY, OTHER, f"dis{ASSEMBLY}", f"dis{OTHER}"]
    assert list(shorten_ids(mixed).values()) == mixed, "their last letters are equal too"
    mixed = [ASSEMBLY, OTHER, f"dis{ASSEMBLY}7", f"dis{OTHER}7"]
    assert list(shorten_ids(mixed).values()) == [f"…{one[-32:]}" for one in mixed]
