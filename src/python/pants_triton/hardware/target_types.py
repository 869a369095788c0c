"""The fields by which a target says what hardware it needs."""

from __future__ import annotations

from pants.engine.target import (
    BoolField,
    Field,
    IntField,
    InvalidFieldException,
    StringField,
    Tags,
    Target,
)
from pants.util.frozendict import FrozenDict
from pants.util.strutil import help_text

from pants_triton.hardware.device import HARDWARE


class HardwareField(StringField):
    alias = "hardware"
    default = "cpu"
    value: str
    # No `valid_choices`: Pants' message for that does not suggest the nearest known value.
    help = help_text(
        f"""
        What a test needs to run: one of {", ".join(f"`{h}`" for h in HARDWARE)}. It is also added
        to the target's `tags`, so `--tag=cuda` selects the tests that need an NVIDIA device.

        To run the same file on several kinds of hardware, write
        `hardware=parametrize("cuda", "rocm")`.

        See `arch` and `devices` to ask for more than any device of that kind.
        """
    )


class ArchField(StringField):
    alias = "arch"
    help = help_text(
        f"""
        The architecture that the device must have: exact, such as `sm_90` or `gfx942`, or at least,
        such as `>=sm_80`. AMD's families (CDNA and RDNA) are not comparable with each other.

        An architecture belongs to one vendor, so it doesn't go together with a parametrized
        `{HardwareField.alias}`: declare such files in a target of their own.

        By default every device of the target's `{HardwareField.alias}` will do. A target whose
        `{HardwareField.alias}` is `cpu` can't set it.
        """
    )


class DevicesField(IntField):
    alias = "devices"
    help = help_text(
        f"""
        How many devices the test process gets at once, by default one. All are of one class: the
        same `{ArchField.alias}`, memory and driver. Only for `{HardwareField.alias}` `cuda` and
        `rocm`.
        """
    )


class ExclusiveDeviceField(BoolField):
    alias = "exclusive_device"
    default = False
    help = help_text(
        """
        If true, no other test process shares this test's devices while it runs, whatever
        `[hardware].tests_per_device` says: for tests that fill the device's memory or measure it.
        """
    )


def tag_by_hardware(target: Target, hardware: str) -> None:
    """Add the hardware to the tags of a target that is being made: `--tag` looks at nothing else.

    To be called from its `validate`, the only hook of a target that sees two fields together, which
    runs before anyone else sees the target. Raises InvalidFieldException where a tag names other
    hardware.
    """
    tags = target[Tags].value or ()
    contradicting = [tag for tag in tags if tag in HARDWARE and tag != hardware]
    if contradicting:
        raise InvalidFieldException(
            f"The target {target.address} has the tag `{contradicting[0]}`, but needs "
            f"`{hardware}`: `--tag={contradicting[0]}` would select a test that says nothing "
            f"about {contradicting[0]}. Remove the tag, or change the field "
            f"`{HardwareField.alias}`."
        )
    if hardware in tags:
        return
    field_values: dict[type[Field], Field] = dict(target.field_values)
    field_values[Tags] = Tags([*tags, hardware], target.address)
    object.__setattr__(target, "field_values", FrozenDict(field_values))
