"""Hostile and broken messages: requests that two servers may read in two ways, and responses of servers that break
RFC 9112. Rows are what it is, the bytes, and the statuses of the answer where these are not the usual ones."""
from .wire import Ended

HOST = b"Host: api.test\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: api.test\r\n\r\n"


def post(fields, body=b"", version=b"1.1", target=b"/victim"):
    return (b"POST " + target + b" HTTP/" + version + b"\r\n" + HOST + fields + b"\r\n" + body)


CL, TE = b"Content-Length: ", b"Transfer-Encoding: "
CHUNKED_HELLO = b"5\r\nhello\r\n0\r\n\r\n"

# What must be refused: (what, bytes, statuses). 400 unless said.
AMBIGUOUS = [
    # two ways of framing
    ("Content-Length and Transfer-Encoding", post(CL + b"5\r\n" + TE + b"chunked\r\n", CHUNKED_HELLO)),
    ("Transfer-Encoding and Content-Length", post(TE + b"chunked\r\n" + CL + b"5\r\n", CHUNKED_HELLO)),
    ("the same with Content-Length 0", post(CL + b"0\r\n" + TE + b"chunked\r\n", CHUNKED_HELLO)),
    ("two Content-Lengths that differ", post(CL + b"5\r\n" + CL + b"6\r\n", b"hello")),
    ("Content-Length as a list that differs", post(CL + b"5, 6\r\n", b"hello")),
    ("both in different letter case", post(b"content-length: 5\r\nTRANSFER-ENCODING: chunked\r\n", CHUNKED_HELLO)),
    # Content-Length
    *[(f"Content-Length {value!r}", post(CL + value + b"\r\n", b"hello")) for value in (
        b"+5", b"-5", b"5 5", b"0x5", b"5;", b"5.0", b"five", b"", b" ", b"5,", b",5", b"\x0b5",
        b"5_0", b"1e1", b"99999999999999999999999", b"18446744073709551616", b"18446744073709551621")],
    # Transfer-Encoding
    *[(f"Transfer-Encoding {value!r}", post(TE + value + b"\r\n", CHUNKED_HELLO), (400, 501)) for value in (
        b"chunked, gzip", b"gzip", b"identity", b"xchunked", b"chunkedx", b"chunked, identity",
        b"identity, chunked, x", b"", b"\"chunked\"", b"chunked;x=1", b"chunked,chunked",
        b"\x0bchunked", b"chunked\x0b", b"chun ked", b"x chunked", b"chunked\x00")],
    ("two Transfer-Encodings, the last not chunked",
     post(TE + b"chunked\r\n" + TE + b"x\r\n", CHUNKED_HELLO), (400, 501)),
    ("chunked twice in two fields", post(TE + b"chunked\r\n" + TE + b"chunked\r\n", CHUNKED_HELLO)),
    ("Transfer-Encoding in HTTP/1.0", post(TE + b"chunked\r\n", CHUNKED_HELLO, version=b"1.0")),
    # field lines
    ("a field line folded over two (obs-fold)", post(b"X-A: b\r\n c\r\n")),
    ("obs-fold in Transfer-Encoding", post(TE + b"\r\n chunked\r\n", CHUNKED_HELLO)),
    ("obs-fold of the first field line", b"GET /victim HTTP/1.1\r\n X: y\r\n" + HOST + b"\r\n"),
    ("space before the colon", post(b"Content-Length : 5\r\n", b"hello")),
    ("tab before the colon", post(b"Transfer-Encoding\t: chunked\r\n", CHUNKED_HELLO)),
    ("space before the name", post(b" Transfer-Encoding: chunked\r\n", CHUNKED_HELLO)),
    ("no colon", post(b"Nonsense\r\n")),
    ("an empty name", post(b": value\r\n")),
    ("a name with a control byte", post(b"X\x01A: b\r\n")),
    ("a name with a byte over 127", post(b"X\xe9A: b\r\n")),
    ("a name with parentheses", post(b"X(A): b\r\n")),
    ("NUL in a value", post(b"X-A: b\0c\r\n")),
    ("a control byte in a value", post(b"X-A: b\x07c\r\n")),
    ("DEL in a value", post(b"X-A: b\x7fc\r\n")),
    # line ends
    ("bare LF after a field", post(b"X-A: b\nTransfer-Encoding: chunked\r\n", CHUNKED_HELLO)),
    ("bare LF after the request line", b"GET /victim HTTP/1.1\n" + HOST + b"\r\n"),
    ("bare LF for the empty line", b"GET /victim HTTP/1.1\r\n" + HOST + b"\n"),
    ("all lines ended by LF", b"GET /victim HTTP/1.1\nHost: api.test\n\n"),
    ("bare CR in a value", post(b"X-A: b\rc\r\n")),
    ("bare CR as a line end", post(b"X-A: b\rTransfer-Encoding: chunked\r\n", CHUNKED_HELLO)),
    ("CR CR LF", post(b"X-A: b\r\r\n")),
    # request line
    ("no version", b"GET /victim\r\n" + HOST + b"\r\n", (400, 505)),
    ("a version in lower case", b"GET /victim http/1.1\r\n" + HOST + b"\r\n"),
    ("two spaces after the method", b"GET  /victim HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("two spaces before the version", b"GET /victim  HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("a space after the version", b"GET /victim HTTP/1.1 \r\n" + HOST + b"\r\n", (400, 505)),
    ("tabs for spaces", b"GET\t/victim\tHTTP/1.1\r\n" + HOST + b"\r\n"),
    ("a lone CR before the request line", b"\rGET /victim HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("a lone LF before the request line", b"\nGET /victim HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("CR CR LF before the request line", b"\r\r\nGET /victim HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("a space before the method", b" GET /victim HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("a method in lower case", b"get /victim HTTP/1.1\r\n" + HOST + b"\r\n", (400, 501)),
    ("NUL in the target", b"GET /vic\0tim HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("a control byte in the target", b"GET /vic\x01tim HTTP/1.1\r\n" + HOST + b"\r\n"),
    ("garbage", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    # versions
    *[(f"version {v.decode()}", b"GET /victim HTTP/" + v + b"\r\n" + HOST + b"\r\n", (505, 400))
      for v in (b"2.0", b"0.9", b"1.2", b"3.0")],
    *[(f"version {v.decode()}", b"GET /victim HTTP/" + v + b"\r\n" + HOST + b"\r\n", (400, 505))
      for v in (b"1", b"1.10", b"11.1", b"1.x", b"-1.1")],
    ("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 501, 505)),
    # Host
    ("no Host", b"GET /victim HTTP/1.1\r\n\r\n"),
    ("two Hosts", b"GET /victim HTTP/1.1\r\n" + HOST + b"Host: other.test\r\n\r\n"),
    ("two Hosts alike", b"GET /victim HTTP/1.1\r\n" + HOST + HOST + b"\r\n"),
    ("no Host with an absolute target", b"GET http://api.test/victim HTTP/1.1\r\n\r\n"),
    ("two Hosts in HTTP/1.0", b"GET /victim HTTP/1.0\r\n" + HOST + b"Host: other.test\r\n\r\n"),
]

# The head is fine and may be forwarded before the fault comes; the request must not end well.
CHUNKS = (
    ("chunk size xyz", b"xyz\r\nhello\r\n0\r\n\r\n"),
    ("chunk size 0x5", b"0x5\r\nhello\r\n0\r\n\r\n"),
    ("chunk size +5", b"+5\r\nhello\r\n0\r\n\r\n"),
    ("chunk size -5", b"-5\r\nhello\r\n0\r\n\r\n"),
    ("a space before the chunk size", b" 5\r\nhello\r\n0\r\n\r\n"),
    ("a space after the chunk size", b"5 \r\nhello\r\n0\r\n\r\n"),
    ("an empty chunk size", b"\r\nhello\r\n0\r\n\r\n"),
    ("only an extension", b";x=1\r\nhello\r\n0\r\n\r\n"),
    ("a chunk size that wraps 64 bits", b"10000000000000005\r\nhello\r\n0\r\n\r\n"),
    ("a chunk shorter than its size", b"4\r\nhello\r\n0\r\n\r\n"),
    ("bare LF after the chunk size", b"5\nhello\r\n0\r\n\r\n"),
    ("bare CR after the chunk size", b"5\rhello\r\n0\r\n\r\n"),
    ("bare LF after the chunk", b"5\r\nhello\n0\r\n\r\n"),
    ("nothing after the chunk", b"5\r\nhello0\r\n\r\n"),
    ("bare LF after the last chunk", b"5\r\nhello\r\n0\n\n"),
    ("bare LF for the last empty line", b"5\r\nhello\r\n0\r\n\n"),
    ("a folded trailer", b"5\r\nhello\r\n0\r\nX-A: b\r\n c\r\n\r\n"),
    ("a trailer with a line of blanks behind it", b"5\r\nhello\r\n0\r\nX-A: b\r\n \t\r\n\r\n"),
    ("an extension without a name", b"5;\r\nhello\r\n0\r\n\r\n"),
    ("an empty extension before another", b"5;;a\r\nhello\r\n0\r\n\r\n"),
    ("an extension without its value", b"5;a=\r\nhello\r\n0\r\n\r\n"),
    ("an open quote in an extension", b"5;a=\"b\r\nhello\r\n0\r\n\r\n"),
    ("a quoted line end in an extension", b"5;a=\"b\\\r\n\"\r\nhello\r\n0\r\n\r\n"),
    ("a blank behind the size", b"5 \r\nhello\r\n0\r\n\r\n"),
    ("bare LF in an extension", b"5;a\nb\r\nhello\r\n0\r\n\r\n"),
    ("NUL in an extension", b"5;a\0b\r\nhello\r\n0\r\n\r\n"),
    ("an endless extension", b"5;" + b"a" * 100_000 + b"\r\nhello\r\n0\r\n\r\n"),
    ("a trailer without a colon", b"5\r\nhello\r\n0\r\nnonsense\r\n\r\n"),
    ("a trailer with a space before the colon", b"5\r\nhello\r\n0\r\nX : y\r\n\r\n"),
    ("endless trailers", b"5\r\nhello\r\n0\r\n" + b"X-A: b\r\n" * 20_000 + b"\r\n"),
    ("blanks and LF behind the size", b"5 \t\nhello\r\n0\r\n\r\n"),
    ("LF behind a trailer", b"5\r\nhello\r\n0\r\nX: y\n\r\n"),
    ("a blank behind an extension", b"5;a \r\nhello\r\n0\r\n\r\n"),
    ("LF behind an extension", b"5;a\nhello\r\n0\r\n\r\n"),
    ("blanks behind a chunk", b"5\r\nhello \r\n0\r\n\r\n"),
)
BAD_CHUNKS = [(what, post(TE + b"chunked\r\n", body)) for what, body in CHUNKS]


def rows(table, default=(400,)):
    for what, data, *statuses in table:
        yield what, data, (statuses[0] if statuses else default)


def served_after(client, data):
    """Sends it with the smuggled request behind; returns the statuses that came until the end."""
    client.try_send(data + SMUGGLED)
    statuses = []
    try:
        while client.buffer or client._more():
            answer = client.response()
            statuses.append(answer.status)
    except Ended:
        pass  # a reset behind the answer is a close too
    return statuses


OK = b"HTTP/1.1 200 OK\r\n"

BAD_RESPONSES = [
    ("Content-Length and Transfer-Encoding", OK + CL + b"5\r\n" + TE + b"chunked\r\n\r\n" + CHUNKED_HELLO),
    *[(f"{length!r} beside chunked", OK + CL + length + b"\r\n" + TE + b"chunked\r\n\r\n" + CHUNKED_HELLO)
      for length in (b"3", b"0", b"500", b"five", b"5, 6", b"5, 5")],
    ("chunked and Content-Length", OK + TE + b"chunked\r\n" + CL + b"5\r\n\r\n" + CHUNKED_HELLO),
    ("chunked twice", OK + TE + b"chunked, chunked\r\n\r\n" + CHUNKED_HELLO),
    ("chunked in two fields", OK + TE + b"chunked\r\n" + TE + b"Chunked\r\n\r\n" + CHUNKED_HELLO),
    ("chunked around gzip", OK + TE + b"chunked\r\n" + TE + b"gzip\r\n" + TE + b"chunked\r\n\r\n" + CHUNKED_HELLO),
    ("chunked, then a folded chunked", OK + TE + b"chunked,\r\n chunked\r\n\r\n" + CHUNKED_HELLO),
    ("a Content-Length with a tab in it", OK + CL + b"5\t5\r\n\r\nhello"),
    ("two Content-Lengths that differ", OK + CL + b"5\r\n" + CL + b"6\r\n\r\nhello!"),
    ("a Content-Length list that differs", OK + CL + b"5, 6\r\n\r\nhello!"),
    *[(f"Content-Length {value!r}", OK + CL + value + b"\r\n\r\nhello") for value in (
        b"+5", b"-5", b"0x5", b"five", b"", b"5 5", b"99999999999999999999999")],
    ("chunked not last", OK + TE + b"chunked, gzip\r\n\r\n" + CHUNKED_HELLO),
    ("Transfer-Encoding gzip", OK + TE + b"gzip\r\n\r\nhello"),
    ("Transfer-Encoding xchunked", OK + TE + b"xchunked\r\n\r\n" + CHUNKED_HELLO),
    ("Transfer-Encoding in HTTP/1.0", b"HTTP/1.0 200 OK\r\n" + TE + b"chunked\r\n\r\n" + CHUNKED_HELLO),
    ("a folded field line", OK + b"X-A: b\r\n c\r\n" + CL + b"5\r\n\r\nhello"),
    ("space before the colon", OK + b"X-A : b\r\n" + CL + b"5\r\n\r\nhello"),
    ("no colon", OK + b"nonsense\r\n" + CL + b"5\r\n\r\nhello"),
    ("NUL in a value", OK + b"X-A: b\0c\r\n" + CL + b"5\r\n\r\nhello"),
    ("bare CR in a value", OK + b"X-A: b\rc\r\n" + CL + b"5\r\n\r\nhello"),
    ("bare LF line ends", b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"),
    ("bare LF after a field", OK + b"X-A: b\n" + CL + b"5\r\n\r\nhello"),
    ("no HTTP at all", b"hello there\r\n\r\n"),
    ("an SSH banner", b"SSH-2.0-OpenSSH_9.2p1\r\n"),
    ("HTTP/2.0", b"HTTP/2.0 200 OK\r\n" + CL + b"5\r\n\r\nhello"),
    ("a status of two digits", b"HTTP/1.1 20 OK\r\n" + CL + b"5\r\n\r\nhello"),
    ("a status of four digits that begin with 0", b"HTTP/1.1 0200 OK\r\n" + CL + b"5\r\n\r\nhello"),
    ("a bare CR in the reason", b"HTTP/1.1 200 O\rSet-Cookie: a\r\n" + CL + b"5\r\n\r\nhello"),
    ("a NUL in the reason", b"HTTP/1.1 200 O\0K\r\n" + CL + b"5\r\n\r\nhello"),
    ("a status of four digits", b"HTTP/1.1 2000 OK\r\n" + CL + b"5\r\n\r\nhello"),
    ("a status that is none", b"HTTP/1.1 abc OK\r\n" + CL + b"5\r\n\r\nhello"),
    ("a status under 100", b"HTTP/1.1 099 No\r\n" + CL + b"5\r\n\r\nhello"),
    ("101 that nobody asked for", b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
    ("a head that is too long", OK + b"X-A: " + b"a" * 1_000_000 + b"\r\n\r\n"),
    ("an endless head", OK + b"X-A: b\r\n" * 100_000),
    ("a close within the head", OK + b"X-A: b\r\n"),
    ("a close within the status line", b"HTTP/1.1 2"),
    ("a close without a byte", b""),
]

BAD_BODIES = [(what, OK + fields + b"\r\n" + body) for what, fields, body in (
    ("a bad chunk size", TE + b"chunked\r\n", b"5\r\nhello\r\nxyz\r\nhello\r\n0\r\n\r\n"),
    ("a chunk longer than its size", TE + b"chunked\r\n", b"5\r\nhello\r\n4\r\nhello\r\n0\r\n\r\n"),
    ("bare LF in chunks", TE + b"chunked\r\n", b"5\r\nhello\r\n5\nhello\r\n0\r\n\r\n"),
    ("a close within a chunk", TE + b"chunked\r\n", b"5\r\nhello\r\n5\r\nhel"),
    ("a close between chunks", TE + b"chunked\r\n", b"5\r\nhello\r\n"),
    ("a close before the last empty line", TE + b"chunked\r\n", b"5\r\nhello\r\n0\r\n"),
    ("a close within the length", CL + b"10\r\n", b"hello"),
)]


def last_words(data):
    """A handler that says this and closes."""
    def handler(x):
        x.read_body()
        x.stream.try_send(data)
        x.close()
    return handler
