"""Elsewhere: a player in a process of its own, for runs whose learning is not done by this machine's processor.

The emulator lets no other Python thread run while it computes: of Breakout, one thread plays 1,020 steps a second and
eight play 940 together (on the host of an H200). So several runs in threads of one process need their games elsewhere,
and a single one gains, too: it prepares the next update while its game goes on.
"""

import os
import pickle
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from supple_lab.interrupted import Interrupted
from supple_lab.lookup import import_plugin
from supple_lab.rl.base import Environment, Frame, Game, Step
from supple_lab.rl.player import Player


class GameDied(Interrupted):
    """The process of the game ended though nobody asked it to, as when the system ran out of memory and chose it."""

    def __init__(self) -> None:
        super().__init__("the process of the game ended unexpectedly. The same command continues.")


class Elsewhere(Player):
    """Passes everything on to a process that knows the game alone, not torch; it ends when this one does."""

    def __init__(self, game: Game) -> None:
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        command = [sys.executable, "-m", __spec__.name, str(theirs_in), str(theirs_out)]
        self._process = subprocess.Popen(
            command,
            pass_fds=(theirs_in, theirs_out),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # an interrupt is this process's to handle
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._requests, self._answers = Connection(ours_out, readable=False), Connection(ours_in, writable=False)
        self._send(game)

    def start(self, seed: int) -> None:
        self._send(("start", seed))
        self._answer()

    def reset(self) -> Frame:
        self._send(("reset",))
        return self._answer()

    def begin_step(self, action: int) -> None:
        self._send(("step", action))

    def finish_step(self) -> Step:
        return self._answer()

    def close(self) -> None:
        self._requests.close()
        self._answers.close()
        self._process.wait()

    def _send(self, request: object) -> None:
        try:
            self._requests.send(request)
        except OSError:
            raise GameDied from None

    def _answer(self) -> Any:
        try:
            answer = self._answers.recv()
        except (EOFError, OSError):  # OSError: in the middle of an answer
            raise GameDied from None
        if isinstance(answer, Exception):
            raise answer
        return answer


def serve(requests: Connection, answers: Connection) -> None:
    """Play what is asked for, until nobody asks any more."""
    environment: Environment | None = None
    with suppress(EOFError, BrokenPipeError):
        game = requests.recv_bytes()
        while True:
            kind, *arguments = requests.recv()
            try:
                if kind == "start":
                    environment = unpacked(game).start(*arguments)
                    answers.send(None)
                else:
                    answers.send(getattr(environment, kind)(*arguments))
            except Exception as error:  # whatever it is, whoever asked must know
                answers.send(error)


def unpacked(game: bytes) -> Game:
    """The game that was sent, which may be one of the user's own."""
    import_plugin()
    return pickle.loads(game)


if __name__ == "__main__":
    fd_in, fd_out = map(int, sys.argv[1:])
    serve(Connection(fd_in, writable=False), Connection(fd_out, readable=False))
