"""Numbers as people read them."""

from __future__ import annotations


def count(number: int) -> str:
    """A number in full.

    >>> count(1234567)
    '1,234,567'
    """
    return f"{number:,}"


def short(number: float) -> str:
    """A number in at most six characters.

    >>> short(999), short(41_250), short(1_234_567)
    ('999', '41.2 k', '1.23 M')
    """
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= size:
            return f"{_digits(number / (1e3 if unit == 'k' else size))} {unit}"
    return f"{number:,.0f}"


def size(number: int) -> str:
    """A number of bytes.

    >>> size(512), size(1_234_567)
    ('512 B', '1.23 MB')
    """
    for unit_bytes, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if number >= unit_bytes:
            return f"{_digits(number / unit_bytes)} {unit}"
    return f"{number} B"


def duration(ms: float) -> str:
    """A length of time.

    >>> duration(0.4), duration(41.2), duration(1234), duration(75_000)
    ('0.4 ms', '41 ms', '1.23 s', '1 min 15 s')
    """
    if ms < 10:
        return f"{ms:.1f} ms"
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 60_000:
        return f"{_digits(ms / 1000)} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def percent(share: float) -> str:
    """A share of the whole.

    >>> percent(0.00385), percent(0.314), percent(1.0)
    ('0.39 %', '31.4 %', '100 %')
    """
    hundredths = share * 100
    if hundredths >= 99.95:
        return f"{hundredths:.0f} %"
    return f"{hundredths:.2f} %" if hundredths < 10 else f"{hundredths:.1f} %"


def _digits(number: float) -> str:
    """Three digits that count."""
    if abs(number) < 10:
        return f"{number:.2f}"
    return f"{number:.1f}" if abs(number) < 100 else f"{number:.0f}"
