"""A worker's log, which never grows beyond its cap."""

from __future__ import annotations

import os

from .records import FULL


class Log:
    """A worker's output, in at most two files of half the cap: ``log.<rank>`` and, cut before it,
    ``log.<rank>.<start>``, which is named by the number of bytes that came before it.
    """

    def __init__(self, directory: int, rank: int, cap: int) -> None:
        self.directory = directory
        self.name = f"log.{rank}"
        self.segment = max(4096, cap // 2)
        self.start = 0
        self.older: str | None = None
        self.size = 0
        self.lost = 0
        self.file = self._open(self.name)

    def write(self, data: bytes) -> None:
        """Append; what a full disk does not take is dropped, counted, and told when there is room again."""
        notice = f"\n… {self.lost} bytes dropped: the disk was full …\n".encode() if self.lost else b""
        missing = len(notice) + len(data) - self._append(notice + data)
        if missing <= len(data):
            self.lost = 0
        self.lost += min(missing, len(data))

    def _append(self, data: bytes) -> int:
        """How many bytes the disk took."""
        taken = 0
        try:
            while taken < len(data):
                if self.size >= self.segment:
                    self._rotate()
                written = os.write(self.file, data[taken : taken + self.segment - self.size])
                self.size += written
                taken += written
        except OSError as error:
            if error.errno not in FULL:
                raise
        return taken

    def _open(self, name: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(name, flags, 0o600, dir_fd=self.directory)

    def _rotate(self) -> None:
        cut, beside = f"{self.name}.{self.start}", f"{self.name}.new"
        file = self._open(beside)
        os.rename(self.name, cut, src_dir_fd=self.directory, dst_dir_fd=self.directory)
        os.rename(beside, self.name, src_dir_fd=self.directory, dst_dir_fd=self.directory)
        os.close(self.file)
        self.file = file
        if self.older:
            os.unlink(self.older, dir_fd=self.directory)
            self._tell_dropped(cut)
        self.older, self.start, self.size = cut, self.start + self.size, 0

    def _tell_dropped(self, name: str) -> None:
        """Say at the head of what is kept how much is missing, in place of its first bytes."""
        notice = f"… {self.start} bytes dropped …\n".encode()
        file = os.open(name, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=self.directory)
        os.pwrite(file, notice, 0)
        os.close(file)
