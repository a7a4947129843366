"""A view of a result for people: a file beside it that pages can show, whatever made the result.

Pages show images, tables and plain text. HTML of a result is not among them: it could be anybody's script.
"""

from __future__ import annotations

import csv
import io
import sys
from typing import Any, Iterable, List, Optional, Tuple

PICTURE = "result.png"
TABLE = "result.csv"
TABLE_HEAD = "result.head.csv"
TEXT = "result.txt"
PREVIEWS = (PICTURE, TABLE, TABLE_HEAD, TEXT)
MAX_PICTURE = 4 << 20
"""Maximum size of an image, in bytes."""
MAX_ROWS = 1_000
MAX_COLUMNS = 100
MAX_CELL = 200
"""Maximum length of a value in a table, in characters."""
MAX_TEXT = 100_000
"""Maximum length of a text, in characters."""


def preview(result: Any) -> Optional[Tuple[str, bytes]]:
    """Return the name and the content of the file that shows a result; None if there is nothing to show.

    Raises whatever the result raises.
    """
    picture = _picture(result)
    if picture is not None and len(picture) <= MAX_PICTURE:
        return PICTURE, picture
    frame = _frame(result)
    if frame is not None:
        return _table(frame)
    text = repr(result)
    if text.startswith("<") and " at 0x" in text:  # says no more than its type
        return None
    return TEXT, text[:MAX_TEXT].encode("utf-8", "replace")


def _picture(result: Any) -> Optional[bytes]:
    figures: Any = sys.modules.get("matplotlib.figure")
    if figures is not None:
        figure = getattr(result, "figure", None) if not isinstance(result, figures.Figure) else result
        if isinstance(figure, figures.Figure):  # also that of axes, and of seaborn's grids
            file = io.BytesIO()
            figure.savefig(file, format="png", bbox_inches="tight")
            return file.getvalue()
    make = getattr(type(result), "_repr_png_", None)
    made = make(result) if callable(make) else None
    return made if isinstance(made, bytes) and made.startswith(b"\x89PNG") else None


def _frame(result: Any) -> Any:
    """Return a result as a frame of pandas, None if it is no table of pandas or Polars."""
    pandas: Any = sys.modules.get("pandas")
    if pandas is not None:
        if isinstance(result, pandas.DataFrame):
            return result
        if isinstance(result, pandas.Series):
            return result.to_frame()
    polars: Any = sys.modules.get("polars")
    return result if polars is not None and isinstance(result, polars.DataFrame) else None


def _table(frame: Any) -> Tuple[str, bytes]:
    rows, columns = frame.shape
    is_whole = rows <= MAX_ROWS and columns <= MAX_COLUMNS
    some = frame.head(MAX_ROWS)
    file = io.StringIO()
    writer = csv.writer(file)
    if hasattr(some, "iloc"):
        some = some.iloc[:, :MAX_COLUMNS]
        names = ["" if name is None else name for name in some.index.names]
        writer.writerow(_cells([*names, *some.columns]))
        for index, *values in some.itertuples(name=None):
            writer.writerow(_cells([*(index if isinstance(index, tuple) else (index,)), *values]))
    else:
        some = some[:, :MAX_COLUMNS]
        writer.writerow(_cells(some.columns))
        writer.writerows(map(_cells, some.iter_rows()))
    return TABLE if is_whole else TABLE_HEAD, file.getvalue().encode("utf-8", "replace")


def _cells(values: Iterable[Any]) -> List[str]:
    return [str(value)[:MAX_CELL] for value in values]
