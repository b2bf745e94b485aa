/*
 * Any bytes from a client of TLS, from its ClientHello to the first byte of data: no fault,
 * whatever comes in which pieces; the handshake ends, fails or waits for more, and what is not TLS
 * is never taken for a finished handshake.
 *
 * The first byte says where the pieces end. The rest replaces a part of what a real client sends,
 * so that what is behind a valid beginning is reached as well: its upper half, the place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "net/tls_server.h"
#include "net/tls_stream.h"
#include "tests/unit/net/memory_stream.h"
#include "tests/unit/net/tls_files.h"
#include "tests/unit/net/tls_peer.h"

#define ROOM        (1 << 17)
#define TURNS_MOST  200
#define HELLO_BYTES 8192

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
	struct loop loop;
	struct stream_loop streams;
	struct tls_server *server;
};

static void on_event(struct stream *stream)
{
	(void)stream;
}

static const struct stream_calls calls = {NULL, on_event};

static struct world *begin(void)
{
	static const char *const protocols[] = {"h2", "http/1.1", NULL};
	static struct world world;
	char path[] = "/tmp/fuzz_tls_hello.XXXXXX", why[512];

	if (world.server)
		return &world;
	int fd = mkstemp(path);
	if (fd < 0 || loop_init(&world.loop) != 0)
		abort();
	close(fd);
	tls_files_make(path, NULL, "api.test", false);
	stream_loop_init(&world.streams, &world.loop);
	struct tls_pair pair = {.certificate = path, .key = path};
	struct tls_settings settings = {.name = "fuzz",
		.pairs = &pair,
		.pair_count = 1,
		.tls12 = true,
		.tls13 = true,
		.protocols = protocols};
	world.server = tls_server_new(&settings, why, sizeof(why));
	unlink(path);
	if (!world.server)
		abort();
	return &world;
}

/* What a client sends first, with the input in the place of a part of it. */
static size_t make_input(const uint8_t *data, size_t size, char out[static 2 * HELLO_BYTES])
{
	static char hello[HELLO_BYTES];
	static size_t len;

	if (len == 0) {
		struct tls_peer *peer = tls_peer_new("api.test", "\2h2", NULL);
		tls_peer_shakes(peer);
		len = tls_peer_take(peer, hello, sizeof(hello));
		tls_peer_free(peer);
	}
	if (size < 2 || data[1] == 0) {
		size_t some = size < 2 ? 0 : size - 2 < HELLO_BYTES ? size - 2 : HELLO_BYTES;
		if (some > 0)
			memcpy(out, data + 2, some);
		return some;
	}
	size_t at = (size_t)data[1] * len / 256,
	       some = size - 2 < HELLO_BYTES ? size - 2 : HELLO_BYTES;
	memcpy(out, hello, len);
	memcpy(out + at, data + 2, some);
	return at + some > len ? at + some : len;
}

static void turn(struct world *world)
{
	loop_hurry(&world->loop);
	loop_run_turn(&world->loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world *world = begin();
	char input[2 * HELLO_BYTES], bytes[4096];
	size_t len = make_input(data, size, input), sent = 0,
	       piece = size > 0 ? 1 + data[0] * 8u : 1;
	struct stream_export export;
	struct memory_peer *peer = memory_export_new(&export, ROOM);
	struct stream stream;
	enum stream_result result = STREAM_AGAIN;
	const char *why = "";

	if (!tls_accept(world->server, &export) ||
		!stream_import(&stream, &world->streams, &export, &calls))
		abort();
	for (unsigned turns = 0; turns < TURNS_MOST && result == STREAM_AGAIN; turns++) {
		size_t some = len - sent < piece ? len - sent : piece;
		sent += memory_peer_send(peer, input + sent, some);
		if (sent == len)
			memory_peer_end_output(peer);
		turn(world);
		result = stream_handshake(&stream, &why);
		while (memory_peer_receive(peer, bytes, sizeof(bytes)) > 0)
			;
	}
	/* No input knows the keys that the server draws. */
	if (result == STREAM_OK || !why)
		abort();
	if (result == STREAM_END) {
		struct buffer buffer = {.at = bytes, .capacity = sizeof(bytes)};
		stream_read(&stream, &buffer);
	}
	stream_close(&stream);
	memory_peer_close(peer);
	turn(world);
	return 0;
}
