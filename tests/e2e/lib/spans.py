"""Requests as spans of time: sent, and read by the origin. Their verdict lies between."""


def most_within(spans, window):
    """The most of (begin, end) spans that lie whole within one window of this length."""
    by_end = sorted(spans, key=lambda span: span[1])
    most = 0
    for begin, _ in spans:
        inside = sum(1 for b, e in by_end if b >= begin and e < begin + window)
        most = max(most, inside)
    return most
