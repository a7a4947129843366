"""The log of a worker, of limited size."""

from __future__ import annotations

import errno
import os

from .error_line import TAIL
from .records import FULL


class Log:
    """The output of a worker, in at most two files of half the cap.

    These are ``log.<rank>`` and the part before it, ``log.<rank>.<start>``, with its offset ``start`` in bytes.
    ``tail`` is the end of what a process wrote.
    """

    def __init__(self, directory: int, rank: int, cap: int) -> None:
        self.directory = directory
        self.name = f"log.{rank}"
        self.segment = max(4096, cap // 2)
        self.start = 0
        self.older: str | None = None
        self.size = 0
        self.lost = 0
        self.tail = b""
        self.file = self._open(self.name)

    def write(self, data: bytes) -> None:
        """Append; count the bytes that a full disk refuses, and write a notice when there is room again."""
        self.tail = (self.tail + data)[-TAIL:]
        notice = f"\n… {self.lost} bytes dropped: the disk was full …\n".encode() if self.lost else b""
        missing = len(notice) + len(data) - self._append(notice + data)
        if missing <= len(data):
            self.lost = 0
        self.lost += min(missing, len(data))

    def _append(self, data: bytes) -> int:
        """Append as far as the disk has room; return the number of bytes that were written."""
        done = 0
        try:
            while done < len(data):
                if self.size >= self.segment:
                    self._rotate()
                written = os.write(self.file, data[done : done + self.segment - self.size])
                self.size += written
                done += written
        except OSError as error:
            if error.errno not in (*FULL, errno.ENOENT):
                raise
        return done

    def _open(self, name: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(name, flags, 0o600, dir_fd=self.directory)

    def _rotate(self) -> None:
        cut, temporary = f"{self.name}.{self.start}", f"{self.name}.new"
        file = self._open(temporary)
        os.rename(self.name, cut, src_dir_fd=self.directory, dst_dir_fd=self.directory)
        os.rename(temporary, self.name, src_dir_fd=self.directory, dst_dir_fd=self.directory)
        os.close(self.file)
        self.file = file
        if self.older:
            os.unlink(self.older, dir_fd=self.directory)
            self._write_notice(cut)
        self.older, self.start, self.size = cut, self.start + self.size, 0

    def _write_notice(self, name: str) -> None:
        """Replace the first bytes of the log by a notice of how many bytes were dropped."""
        notice = f"… {self.start} bytes dropped …\n".encode()
        file = os.open(name, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=self.directory)
        os.pwrite(file, notice, 0)
        os.close(file)
