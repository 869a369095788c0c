"""The `[kernel-cache]` options."""

from __future__ import annotations

from enum import Enum

from pants.option.global_options import GlobalOptions
from pants.option.option_types import EnumOption, StrOption
from pants.option.subsystem import Subsystem
from pants.util.frozendict import FrozenDict
from pants.util.strutil import help_text, softwrap

from pants_triton.kernel_cache.errors import SettingsError
from pants_triton.kernel_cache.settings import DEFAULT_TIMEOUT_S, OFF, READ, WRITE, make_settings


class KernelCacheMode(Enum):
    OFF = OFF
    READ = READ
    WRITE = WRITE


class KernelCacheOptionError(Exception):
    """A `[kernel-cache]` option can't be used. The message names the way out."""


class KernelCacheSubsystem(Subsystem):
    """The `[kernel-cache]` options: whether tests share the kernels that they compile, and where."""

    options_scope = "kernel-cache"
    help = help_text(
        """
        Tests may share the kernels that Triton compiles, over a server of the Remote Execution API.
        Off unless asked for: a test that compiles everything itself depends on no server.

        The packages `h2` and `protobuf` must be in the resolve of the tests.
        """
    )

    mode = EnumOption(
        default=KernelCacheMode.OFF,
        help=softwrap(
            """
            Whether `triton_test` targets take compiled kernels from the server (`read`), and store
            those that they compile (`write`). Whoever may write decides what others run on their
            devices: let only trusted branches, and let the server see to it.
            """
        ),
    )
    address = StrOption(
        default=None,
        help=softwrap(
            """
            The server, such as `grpcs://host:port`, or `grpc://host:port` without encryption. By
            default that of `[GLOBAL].remote_store_address`, with its instance, certificates and
            token; the options below are for an `address` given here.
            """
        ),
    )
    instance = StrOption(default=None, help="The instance name on the server, if it has several.")
    ca = StrOption(
        default=None,
        help="A file with the certificates to trust, in PEM form, instead of the machine's own.",
    )
    token_file = StrOption(
        default=None,
        help=softwrap(
            """
            A file with a bearer token, or with `USER:PASSWORD` where the server wants those. It is
            read by the test processes. Without an `address` it counts in place of the token that
            Pants has.
            """
        ),
    )
    timeout = StrOption(
        default=f"{DEFAULT_TIMEOUT_S:g}",
        help="Seconds that one call to the server may take. After that tests go on without it.",
    )

    def client_settings(self, global_options: GlobalOptions) -> FrozenDict[str, str] | None:
        """What the client reads in its settings file, or None if the cache is off.

        :raises KernelCacheOptionError: an option is wrong.
        """
        if self.mode is KernelCacheMode.OFF:
            return None
        if self.address:
            values = {
                "address": self.address,
                "instance": self.instance,
                "ca": self.ca,
                "token_file": self.token_file,
            }
        else:
            values = {
                "address": global_options.remote_store_address,
                "instance": global_options.remote_instance_name,
                "ca": global_options.remote_ca_certs_path,
                "token_file": self.token_file or global_options.remote_oauth_bearer_token_path,
            }
        settings = {name: value or "" for name, value in values.items()}
        settings.update(mode=self.mode.value, timeout=self.timeout)
        if not settings["address"]:
            raise KernelCacheOptionError(
                f"`[kernel-cache].mode` is `{self.mode.value}`, but no server is named. Set "
                "`[kernel-cache].address` or `[GLOBAL].remote_store_address`."
            )
        try:
            make_settings(**settings)
        except SettingsError as e:
            raise KernelCacheOptionError(
                f"The kernel cache can't be used: {e}. See `[kernel-cache]`, or turn it off: "
                "`--kernel-cache-mode=off`."
            ) from None
        return FrozenDict(settings)
