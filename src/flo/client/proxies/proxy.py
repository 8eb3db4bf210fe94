"""How a class of the async client becomes one whose methods block.

    async def get(…) -> T                    def get(…) -> T
    async def keys(…) -> AsyncGenerator[T]   def keys(…) -> Iterator[T]
    async with …                             with …

What a method returns blocks too if it is of the client: an Invocation is a BlockingInvocation.
"""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from flo.client.proxies.thread import LoopThread


class BlockingProxy:
    """An object of the async client, and the thread in which its calls run."""

    def __init__(self, thread: LoopThread, target: Any) -> None:
        self._thread = thread
        self._target = target

    def __repr__(self) -> str:
        return f"Blocking{self._target!r}"

    if not TYPE_CHECKING:  # which sees what there is in nouns.pyi

        def __getattr__(self, name: str) -> Any:
            """What is no method is as it is there."""
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            return getattr(self._target, name)


PROXIES: dict[type[Any], type[BlockingProxy]] = {}
"""Classes of the async client, each with the one that blocks."""


def blocking(target: type[Any]) -> type[BlockingProxy]:
    """The class whose methods are those of `target`, but block."""
    members: dict[str, Any] = {
        name: _blocking_method(member)
        for name, member in vars(target).items()
        if inspect.isfunction(member) and not name.startswith("_")
    }
    if hasattr(target, "__aenter__"):
        members |= {"__enter__": _enter, "__exit__": _exit}
    if "__str__" in vars(target):
        members["__str__"] = lambda proxy: str(proxy._target)
    members |= {"__doc__": f"{target.__name__}, blocking.", "__module__": f"{__package__}.nouns"}
    proxy = type(f"Blocking{target.__name__}", (BlockingProxy,), members)
    PROXIES[target] = proxy
    return proxy


def _blocking_method(method: Callable[..., Any]) -> Callable[..., Any]:
    is_async, yields = inspect.iscoroutinefunction(method), inspect.isasyncgenfunction(method)

    @wraps(method)
    def call(proxy: BlockingProxy, /, *args: Any, **kwargs: Any) -> Any:
        result = method(proxy._target, *args, **kwargs)
        if yields:
            return proxy._thread.each(result)
        return _wrapped(proxy._thread, proxy._thread.run(result) if is_async else result)

    return call


def _wrapped(thread: LoopThread, result: Any) -> Any:
    """What a method returned; objects of the client, and lists of them, so that they block."""
    if type(result) in PROXIES:
        return PROXIES[type(result)](thread, result)
    if isinstance(result, list) and result and type(result[0]) in PROXIES:
        return [_wrapped(thread, one) for one in result]
    return result


def _enter(proxy: BlockingProxy) -> BlockingProxy:
    proxy._thread.run(proxy._target.__aenter__())
    return proxy


def _exit(proxy: BlockingProxy, *raised: object) -> None:
    proxy._thread.run(proxy._target.__aexit__(*raised))
