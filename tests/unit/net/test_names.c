/* Names to addresses, without a network. */
#include "net/names.h"

#include <event2/event.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "loop/loop.h"
#include "tests/unit/suite.h"

struct heard {
	unsigned count;
	bool failed;
	uint32_t address;
};

static void note(void *ctx, const char *why, const struct addrinfo *list)
{
	struct heard *heard = ctx;

	heard->count++;
	heard->failed = why != NULL;
	assert_true((why == NULL) == (list != NULL));
	if (list && list->ai_family == AF_INET)
		heard->address = ntohl(
			((const struct sockaddr_in *)(const void *)list->ai_addr)->sin_addr.s_addr);
}

static struct heard look_up(const char *name)
{
	struct heard heard = {0};
	struct loop loop;

	assert_int_equal(loop_init(&loop), 0);
	struct names *names = names_new(loop.base);
	assert_non_null(names);
	assert_non_null(names_look_up(names, name, note, &heard));
	assert_int_equal(heard.count, 0);
	while (heard.count == 0)
		assert_int_equal(loop_run_turn(&loop), 0);
	names_free(names);
	loop_end(&loop);
	assert_int_equal(heard.count, 1);
	return heard;
}

static void an_address_is_its_own(void **state)
{
	struct heard heard = look_up("127.0.0.2");

	(void)state;
	assert_false(heard.failed);
	assert_int_equal(heard.address, 0x7f000002);
}

/* A label has at most 63 bytes (RFC 1035 section 2.3.4). */
static void what_is_no_name_fails(void **state)
{
	(void)state;
	assert_true(
		look_up("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.test")
			.failed);
}

static void a_cancelled_one_is_not_heard(void **state)
{
	struct heard heard = {0};
	struct loop loop;

	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	struct names *names = names_new(loop.base);
	struct name_lookup *one = names_look_up(names, "127.0.0.1", note, &heard);
	struct heard other = {0};
	assert_non_null(names_look_up(names, "127.0.0.1", note, &other));
	names_cancel(one);
	while (other.count == 0)
		assert_int_equal(loop_run_turn(&loop), 0);
	assert_int_equal(heard.count, 0);
	names_free(names);
	names_free(NULL);
	loop_end(&loop);
}

/* ---- files that change, or can't be read ----------------------------------------------------- */

struct place {
	char folder[32], servers[64], hosts[64];
	struct loop loop;
	struct names *names;
};

static int set_up(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	assert_non_null(place);
	snprintf(place->folder, sizeof(place->folder), "/tmp/test_names-XXXXXX");
	assert_non_null(mkdtemp(place->folder));
	snprintf(place->servers, sizeof(place->servers), "%s/servers", place->folder);
	snprintf(place->hosts, sizeof(place->hosts), "%s/hosts", place->folder);
	assert_int_equal(loop_init(&place->loop), 0);
	place->names = names_new(place->loop.base);
	assert_non_null(place->names);
	names_set_files(place->names, place->servers, place->hosts);
	*state = place;
	return 0;
}

static int tear_down(void **state)
{
	struct place *place = *state;

	names_free(place->names);
	loop_end(&place->loop);
	unlink(place->servers);
	unlink(place->hosts);
	rmdir(place->folder);
	free(place);
	return 0;
}

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static struct heard look_up_in(struct place *place, const char *name)
{
	struct heard heard = {0};

	assert_non_null(names_look_up(place->names, name, note, &heard));
	while (heard.count == 0)
		assert_int_equal(loop_run_turn(&place->loop), 0);
	return heard;
}

static void what_has_changed_is_read_again(void **state)
{
	struct place *place = *state;

	put(place->servers, "");
	put(place->hosts, "192.0.2.1 a.test\n");
	assert_int_equal(look_up_in(place, "a.test").address, 0xc0000201);
	put(place->hosts, "192.0.2.22 a.test\n");
	assert_int_equal(look_up_in(place, "a.test").address, 0xc0000216);
}

/* A name server of 192.0.2.7 for all, that answers one question. Its port. */
static uint16_t serve(int *server)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);

	*server = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(*server >= 0);
	assert_int_equal(bind(*server, (struct sockaddr *)(void *)&at, len), 0);
	assert_int_equal(getsockname(*server, (struct sockaddr *)(void *)&at, &len), 0);
	return ntohs(at.sin_port);
}

static void answer_one(int server)
{
	static const unsigned char record[] = {
		0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 192, 0, 2, 7};
	unsigned char bytes[512];
	struct sockaddr_in asker;
	socklen_t asker_len = sizeof(asker);
	ssize_t len = recvfrom(server, bytes, sizeof(bytes) - sizeof(record), 0,
		(struct sockaddr *)(void *)&asker, &asker_len);

	assert_true(len > 12);
	bytes[2] = 0x81; /* a response, as asked for (RFC 1035 section 4.1.1) */
	bytes[3] = 0x80;
	bytes[7] = 1; /* answer */
	for (size_t i = 0; i < sizeof(record); i++)
		bytes[(size_t)len + i] = record[i];
	assert_true(sendto(server, bytes, (size_t)len + sizeof(record), 0,
			    (struct sockaddr *)(void *)&asker, asker_len) > 0);
}

static void name_server(struct place *place, uint16_t port)
{
	char text[64];

	snprintf(text, sizeof(text), "nameserver 127.0.0.1:%u\n", port);
	put(place->servers, text);
}

/* The files are read again meanwhile; the older look-up has its answer, and those that were
 * cancelled are freed with the rest. */
static void a_look_up_under_way_outlives_a_change(void **state)
{
	struct place *place = *state;
	struct heard heard = {0};
	int server;

	name_server(place, serve(&server));
	put(place->hosts, "");
	assert_non_null(names_look_up_family(place->names, "b.test", AF_INET, note, &heard));
	assert_int_equal(loop_run_turn(&place->loop), 0);
	put(place->hosts, "192.0.2.3 a.test\n");
	assert_int_equal(look_up_in(place, "a.test").address, 0xc0000203);
	put(place->hosts, "192.0.2.44 a.test\n");
	assert_int_equal(look_up_in(place, "a.test").address, 0xc000022c);
	assert_int_equal(heard.count, 0);
	answer_one(server);
	while (heard.count == 0)
		assert_int_equal(loop_run_turn(&place->loop), 0);
	assert_int_equal(heard.address, 0xc0000207);
	put(place->hosts, "192.0.2.5 a.test\n");
	assert_int_equal(look_up_in(place, "a.test").address, 0xc0000205);
	close(server);
}

/* ---- memory that libevent gives back is spoilt, and kept until the end ----------------------- */

struct buried {
	struct buried *next;
};

static struct buried *graveyard;

static void bury(void *memory)
{
	struct buried *buried = memory;
	size_t bytes = malloc_usable_size(memory);

	if (bytes < sizeof(*buried)) {
		free(memory);
		return;
	}
	memset(memory, 0xff, bytes);
	buried->next = graveyard;
	graveyard = buried;
}

static void free_buried(void)
{
	event_set_mem_functions(malloc, realloc, free);
	while (graveyard) {
		struct buried *buried = graveyard;
		graveyard = buried->next;
		free(buried);
	}
}

static bool is_asked(int server)
{
	struct pollfd polled = {.fd = server, .events = POLLIN};

	return poll(&polled, 1, 300) > 0;
}

/* Asks for both families, of which that of IPv6 is not answered. False: this system has addresses
 * of one family, so only these are asked for. */
static bool answer_ipv4(int server)
{
	unsigned char bytes[512];
	ssize_t len;

	if (!is_asked(server))
		return false;
	len = recv(server, bytes, sizeof(bytes), MSG_PEEK);
	assert_true(len > 12);
	if (bytes[len - 3] != 1) { /* the type, before the class (RFC 1035 section 4.1.2) */
		assert_true(recv(server, bytes, sizeof(bytes), 0) == len);
		if (!is_asked(server))
			return false;
		answer_one(server);
		return true;
	}
	answer_one(server);
	return is_asked(server);
}

struct later {
	struct place *place;
	struct heard heard;
};

static void look_up_later(evutil_socket_t fd, short what, void *arg)
{
	struct later *later = arg;

	(void)fd;
	(void)what;
	assert_non_null(names_look_up(later->place->names, "a.test", note, &later->heard));
}

/* The answer without the addresses of IPv6, and then a look-up that reads the files again, come in
 * one turn; libevent ends the question of IPv6 after that. */
static void an_answer_of_one_family_leaves_the_other_its_end(void **state)
{
	static const struct timeval first = {.tv_usec = 500000};
	struct place *place = *state;
	struct later later = {.place = place};
	struct heard heard = {0};
	char text[96];
	int server;

	event_set_mem_functions(malloc, realloc, bury);
	snprintf(text, sizeof(text), "nameserver 127.0.0.1:%u\noptions getaddrinfo-allow-skew:1\n",
		serve(&server));
	put(place->servers, text);
	put(place->hosts, "");
	struct name_lookup *lookup = names_look_up(place->names, "b.test", note, &heard);
	assert_non_null(lookup);
	assert_int_equal(loop_run_turn(&place->loop), 0);
	if (!answer_ipv4(server)) {
		names_cancel(lookup);
		assert_int_equal(loop_run_turn(&place->loop), 0);
		close(server);
		skip();
	}
	struct event *timer = evtimer_new(place->loop.base, look_up_later, &later);
	assert_non_null(timer);
	assert_int_equal(event_add(timer, &first), 0);
	assert_int_equal(loop_run_turn(&place->loop), 0); /* takes the answer */
	put(place->hosts, "192.0.2.1 a.test\n");
	sleep(2);
	while (later.heard.count == 0 || heard.count == 0)
		assert_int_equal(loop_run_turn(&place->loop), 0);
	assert_int_equal(heard.address, 0xc0000207);
	assert_int_equal(later.heard.address, 0xc0000201);
	event_free(timer);
	close(server);
}

static int tear_down_buried(void **state)
{
	int result = tear_down(state);

	free_buried();
	return result;
}

/* A process may begin before its network does. */
static void a_server_that_is_named_later_is_asked(void **state)
{
	struct place *place = *state;
	struct heard heard = {0};
	int server;

	put(place->hosts, "192.0.2.1 a.test\n");
	assert_int_equal(look_up_in(place, "a.test").address, 0xc0000201);
	name_server(place, serve(&server));
	assert_non_null(names_look_up_family(place->names, "b.test", AF_INET, note, &heard));
	assert_int_equal(loop_run_turn(&place->loop), 0);
	answer_one(server);
	while (heard.count == 0)
		assert_int_equal(loop_run_turn(&place->loop), 0);
	assert_int_equal(heard.address, 0xc0000207);
	close(server);
}

static rlim_t set_descriptors(rlim_t most)
{
	struct rlimit limit;
	rlim_t before;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	before = limit.rlim_cur;
	limit.rlim_cur = most;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return before;
}

/* It fails at once, as no answer could come; and the next one reads the files. */
static void without_descriptors_one_fails_and_the_next_does_not(void **state)
{
	struct place *place = *state;
	struct heard heard;
	int next = open("/dev/null", O_RDONLY | O_CLOEXEC);

	put(place->servers, "");
	put(place->hosts, "192.0.2.1 a.test\n");
	assert_true(next >= 0);
	close(next);
	rlim_t before = set_descriptors((rlim_t)next);
	heard = look_up_in(place, "a.test");
	set_descriptors(before);
	assert_true(heard.failed);
	assert_int_equal(look_up_in(place, "a.test").address, 0xc0000201);
}

UNIT_SUITE(test_names)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_is_its_own),
		cmocka_unit_test(what_is_no_name_fails),
		cmocka_unit_test(a_cancelled_one_is_not_heard),
		cmocka_unit_test_setup_teardown(what_has_changed_is_read_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_look_up_under_way_outlives_a_change, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			an_answer_of_one_family_leaves_the_other_its_end, set_up, tear_down_buried),
		cmocka_unit_test_setup_teardown(
			a_server_that_is_named_later_is_asked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			without_descriptors_one_fails_and_the_next_does_not, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
