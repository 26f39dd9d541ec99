# SPDX-License-Identifier: Apache-2.0

"""Ends a flow of TaskFlow between two tasks."""

from collections import abc
import typing

from taskflow import states


class Watch:
    """Calls a function after each task, before the next begins.

    If the function raises, no other task begins, and none is reverted.
    TaskFlow ignores exceptions of listeners, so finish() raises it.

    :param check: called with the name of the task and its result.
    :param ends: TaskFlow's states of an ended task.
    """

    def __init__(self, engine: typing.Any,
                 check: abc.Callable[[str, typing.Any], object],
                 ends: abc.Iterable[str] = (states.SUCCESS,)) -> None:
        self._engine = engine
        self._check = check
        self._error: Exception | None = None
        for end in ends:
            engine.atom_notifier.register(end, self._on_end)

    def _on_end(self, _state: str,
                details: dict[str, typing.Any]) -> None:
        try:
            self._check(details.get('task_name', ''), details.get('result'))
        except Exception as e:
            self._error = e
            self._engine.suspend()

    def finish(self) -> None:
        """Raise what check() raised; call it after the engine has run."""
        if self._error is not None:
            raise self._error
