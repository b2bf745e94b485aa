/*
 * A load generator for what wrk can't do: connections held idle, a fixed rate with honest
 * latencies, an exact number of requests, a million callers.
 *
 *	--mode closed   each connection sends its next request when it has its answer, for
 *	                --seconds or --count
 *	--mode open     requests are due at a fixed --rate, whatever the answers do; a latency is
 *	                counted from when the request was due, so a subject that stalls is charged
 *	                for all that had to wait (no coordinated omission)
 *	--mode idle     one request on each connection, then "ready", then nothing until standard
 *	                input ends
 *
 * Prints one line of JSON; with --buckets also its latencies, as pairs of nanoseconds and how
 * often, so that those of several runs can be counted together.
 */
#include "tests/bench/client.h"
#include "tests/bench/histogram.h"
#include "tests/bench/sockets.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum mode { MODE_CLOSED, MODE_OPEN, MODE_IDLE };
enum { EVENTS = 512, IDLE_AT_ONCE = 16, CONNECT_BURST = 128 };

static const uint64_t second_ns = 1000000000u;
static const uint64_t grace_ns = 5000000000u; /* for what is under way when the time is up */

struct options {
	enum mode mode;
	struct sockaddr_in address;
	unsigned connections;
	double seconds;
	double warmup; /* of `seconds`, not counted in the latencies */
	double rate;
	uint64_t count;
	unsigned callers;
	bool sequential; /* callers in turn, not at random */
	unsigned paths;
	const char *path;
	size_t header_bytes;
	size_t body_bytes;
	bool buckets;
};

/* One request, as bytes, in which the caller's and the route's number are written in place before
 * each sending. */
struct template
{
	char *bytes;
	size_t length;
	char *caller_digits; /* seven of them */
	char *path_digits;   /* four, or NULL */
};

struct load {
	struct options options;
	struct template template;
	struct client *clients;
	struct client *free_first; /* clients that wait for a request to send, oldest first */
	struct client *free_last;
	int epoll;
	uint64_t random;
	uint64_t next_caller;
	uint64_t start_ns;
	uint64_t end_ns;
	uint64_t sent;
	uint64_t to_send;
	uint64_t answered;
	uint64_t status_2xx;
	uint64_t status_429;
	uint64_t status_other;
	uint64_t broken;
	struct histogram latencies;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * second_ns + (uint64_t)now.tv_nsec;
}

/* xorshift64*: quick, and the same sequence each run. */
static uint64_t next_random(struct load *load)
{
	load->random ^= load->random >> 12;
	load->random ^= load->random << 25;
	load->random ^= load->random >> 27;
	return load->random * 0x2545f4914f6cdd1dull;
}

static void write_digits(char *at, unsigned digits, uint64_t number)
{
	while (digits-- > 0) {
		at[digits] = (char)('0' + number % 10);
		number /= 10;
	}
}

/* ---- the request
 * ---------------------------------------------------------------------------------------------- */

/* Adds fields of up to 1,000 bytes until the head has the bytes asked for. */
static size_t pad_head(char *bytes, size_t length, size_t wanted)
{
	while (length + 2 + sizeof "X-Pad: \r\n" < wanted) {
		size_t value = wanted - length - 2 - (sizeof "X-Pad: \r\n" - 1);
		if (value > 1000)
			value = 1000;
		memcpy(bytes + length, "X-Pad: ", 7);
		memset(bytes + length + 7, 'p', value);
		memcpy(bytes + length + 7 + value, "\r\n", 2);
		length += 9 + value;
	}
	return length;
}

static void make_template(struct load *load)
{
	const struct options *options = &load->options;
	struct template *template = &load->template;
	char route[16] = "";
	char body_length[48] = "";

	if (options->paths > 0)
		snprintf(route, sizeof route, "/r0000");
	if (options->body_bytes > 0)
		snprintf(body_length, sizeof body_length, "Content-Length: %zu\r\n",
			options->body_bytes);
	size_t room = 1024 + strlen(options->path) + options->header_bytes + options->body_bytes;
	template->bytes = calloc(1, room);
	if (template->bytes == NULL)
		sockets_die("calloc");
	template->length = (size_t)snprintf(template->bytes, room,
		"%s %s%s HTTP/1.1\r\nHost: bench.example\r\nX-Api-Key: caller-0000000\r\n%s",
		options->body_bytes > 0 ? "POST" : "GET", route, options->path, body_length);
	template->length = pad_head(template->bytes, template->length, options->header_bytes);
	memcpy(template->bytes + template->length, "\r\n", 2);
	template->length += 2 + options->body_bytes;
	memset(template->bytes + template->length - options->body_bytes, 'b', options->body_bytes);
	template->caller_digits = strstr(template->bytes, "caller-") + 7;
	template->path_digits = options->paths > 0 ? strstr(template->bytes, "/r0000") + 2 : NULL;
}

static void number_template(struct load *load)
{
	const struct options *options = &load->options;

	if (options->callers > 1) {
		uint64_t caller =
			options->sequential ? load->next_caller++ : next_random(load) >> 16;
		write_digits(load->template.caller_digits, 7, caller % options->callers);
	}
	if (options->paths > 1)
		write_digits(
			load->template.path_digits, 4, (next_random(load) >> 16) % options->paths);
}

/* ---- connections
 * ---------------------------------------------------------------------------------------------- */

static void put_free(struct load *load, struct client *client)
{
	client->next_free = NULL;
	if (load->free_last != NULL)
		load->free_last->next_free = client;
	else
		load->free_first = client;
	load->free_last = client;
}

static struct client *take_free(struct load *load)
{
	struct client *client = load->free_first;

	load->free_first = client->next_free;
	if (load->free_first == NULL)
		load->free_last = NULL;
	return client;
}

/* Opens the client's connection and waits for its handshake. Returns false when it was refused. */
static bool open_client(struct load *load, struct client *client)
{
	bool connecting = false;
	struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = client};

	client->fd = sockets_connect(&load->options.address, &connecting);
	if (client->fd < 0)
		return false;
	if (connecting) {
		struct pollfd wait = {.fd = client->fd, .events = POLLOUT};
		int error = 0;
		socklen_t size = sizeof error;
		if (poll(&wait, 1, 5000) != 1 ||
			getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 ||
			error != 0) {
			client_close(client);
			return false;
		}
	}
	if (epoll_ctl(load->epoll, EPOLL_CTL_ADD, client->fd, &event) != 0)
		sockets_die("epoll_ctl");
	return true;
}

/* Opens all connections, a burst at a time, so that no listening queue runs over. */
static void open_clients(struct load *load)
{
	load->clients = calloc(load->options.connections, sizeof *load->clients);
	if (load->clients == NULL)
		sockets_die("calloc");
	for (unsigned i = 0; i < load->options.connections; i++) {
		if (!open_client(load, &load->clients[i])) {
			fprintf(stderr, "connection %u of %u failed\n", i + 1,
				load->options.connections);
			exit(1);
		}
		put_free(load, &load->clients[i]);
		if (i % CONNECT_BURST == CONNECT_BURST - 1)
			usleep(2000);
	}
}

/* ---- requests under way
 * ---------------------------------------------------------------------------------------- */

static void count_answer(struct load *load, const struct client *client)
{
	uint64_t warm_ns = load->start_ns + (uint64_t)(load->options.warmup * (double)second_ns);

	load->answered++;
	if (client->status / 100 == 2)
		load->status_2xx++;
	else if (client->status == 429)
		load->status_429++;
	else
		load->status_other++;
	if (client->due_ns >= warm_ns)
		histogram_add(&load->latencies, now_ns() - client->due_ns);
}

/* The peer closed: what was under way is lost, the connection is opened again. A free client keeps
 * its place in line. */
static void renew(struct load *load, struct client *client)
{
	bool was_busy = client->busy;
	struct client *next_free = client->next_free;

	client_close(client);
	if (!open_client(load, client)) {
		fprintf(stderr, "the subject takes no connections any more\n");
		exit(1);
	}
	client->next_free = next_free;
	if (was_busy) {
		load->broken++;
		put_free(load, client);
	}
}

static void send_one(struct load *load, uint64_t due_ns)
{
	struct client *client = take_free(load);

	number_template(load);
	load->sent++;
	client->due_ns = due_ns;
	client->busy = true;
	if (!client_send(client, load->template.bytes, load->template.length))
		renew(load, client);
}

static void serve(struct load *load, struct client *client)
{
	if (!client_flush(client)) {
		renew(load, client);
		return;
	}
	switch (client_read(client)) {
	case CLIENT_ANSWERED:
		count_answer(load, client);
		put_free(load, client);
		break;
	case CLIENT_BROKEN:
		renew(load, client);
		break;
	case CLIENT_WAITS:
		break;
	}
}

/* Waits for answers, at most until `until_ns` (0: without waiting at all). */
static void serve_events(struct load *load, uint64_t until_ns)
{
	struct epoll_event events[EVENTS];
	struct pollfd ready = {.fd = load->epoll, .events = POLLIN};
	uint64_t now = now_ns();

	if (until_ns > now) {
		struct timespec wait = {.tv_sec = (time_t)((until_ns - now) / second_ns),
			.tv_nsec = (long)((until_ns - now) % second_ns)};
		ppoll(&ready, 1, &wait, NULL); /* epoll_wait counts in milliseconds only */
	}
	int n = epoll_wait(load->epoll, events, EVENTS, 0);
	for (int i = 0; i < n; i++)
		serve(load, events[i].data.ptr);
}

static bool any_left(const struct load *load)
{
	return load->answered + load->broken < load->sent;
}

static void run_closed(struct load *load, unsigned at_once)
{
	while (load->sent < load->to_send && now_ns() < load->end_ns) {
		while (load->free_first != NULL && load->sent < load->to_send &&
			load->sent - load->answered - load->broken < at_once)
			send_one(load, now_ns());
		serve_events(load, load->end_ns);
	}
	uint64_t patience = now_ns() + grace_ns;
	while (any_left(load) && now_ns() < patience)
		serve_events(load, patience);
}

static void run_open(struct load *load)
{
	double interval_ns = (double)second_ns / load->options.rate;
	uint64_t patience = load->end_ns + grace_ns;

	while (now_ns() < patience && (load->sent < load->to_send || any_left(load))) {
		uint64_t due_ns = load->start_ns + (uint64_t)((double)load->sent * interval_ns);
		while (load->sent < load->to_send && load->free_first != NULL &&
			due_ns <= now_ns()) {
			send_one(load, due_ns);
			due_ns = load->start_ns + (uint64_t)((double)load->sent * interval_ns);
		}
		bool sends_next = load->sent < load->to_send && load->free_first != NULL;
		serve_events(load, sends_next ? due_ns : patience);
	}
	/* What never got its answer was late by all the time it had. */
	for (uint64_t i = load->answered; i < load->to_send; i++)
		histogram_add(&load->latencies, grace_ns);
}

static void run_idle(struct load *load)
{
	char byte;

	load->to_send = load->options.connections;
	run_closed(load, IDLE_AT_ONCE);
	printf("ready %lu\n", (unsigned long)load->answered);
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		continue;
}

static void print_buckets(const struct histogram *histogram)
{
	const char *between = "";

	printf(", \"latencies\": [");
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		if (histogram->buckets[i] == 0)
			continue;
		printf("%s[%lu, %lu]", between, (unsigned long)histogram_upper(i),
			(unsigned long)histogram->buckets[i]);
		between = ", ";
	}
	printf("]");
}

static void print_result(const struct load *load, double seconds)
{
	const struct histogram *latencies = &load->latencies;

	printf("{\"requests\": %lu, \"seconds\": %.6f, \"rate\": %.1f, \"status_2xx\": %lu, "
	       "\"status_429\": %lu, "
	       "\"status_other\": %lu, \"broken\": %lu, \"p50_us\": %.1f, \"p90_us\": %.1f, "
	       "\"p99_us\": %.1f, "
	       "\"p999_us\": %.1f, \"max_us\": %.1f",
		(unsigned long)load->answered, seconds, (double)load->answered / seconds,
		(unsigned long)load->status_2xx, (unsigned long)load->status_429,
		(unsigned long)load->status_other, (unsigned long)load->broken,
		(double)histogram_percentile(latencies, 50) / 1000,
		(double)histogram_percentile(latencies, 90) / 1000,
		(double)histogram_percentile(latencies, 99) / 1000,
		(double)histogram_percentile(latencies, 99.9) / 1000,
		(double)latencies->largest / 1000);
	if (load->options.buckets)
		print_buckets(latencies);
	printf("}\n");
}

/* ---- options
 * ----------------------------------------------------------------------------------------------------
 */

static _Noreturn void usage(void)
{
	fprintf(stderr, "usage: load [--mode closed|open|idle] [--connections N] [--seconds S] "
			"[--warmup S] [--count N]\n"
			"            [--rate R] [--callers N] [--sequential] [--path P] [--paths "
			"N] [--header-bytes N]\n"
			"            [--body-bytes N] [--buckets] [HOST:]PORT\n");
	exit(2);
}

static enum mode mode_named(const char *name)
{
	if (strcmp(name, "closed") == 0)
		return MODE_CLOSED;
	if (strcmp(name, "open") == 0)
		return MODE_OPEN;
	if (strcmp(name, "idle") == 0)
		return MODE_IDLE;
	usage();
}

static void set_option(struct options *options, int letter, const char *value)
{
	switch (letter) {
	case 'm':
		options->mode = mode_named(value);
		break;
	case 'c':
		options->connections = (unsigned)strtoul(value, NULL, 10);
		break;
	case 's':
		options->seconds = strtod(value, NULL);
		break;
	case 'w':
		options->warmup = strtod(value, NULL);
		break;
	case 'n':
		options->count = strtoull(value, NULL, 10);
		break;
	case 'r':
		options->rate = strtod(value, NULL);
		break;
	case 'k':
		options->callers = (unsigned)strtoul(value, NULL, 10);
		break;
	case 'q':
		options->sequential = true;
		break;
	case 'p':
		options->path = value;
		break;
	case 'P':
		options->paths = (unsigned)strtoul(value, NULL, 10);
		break;
	case 'h':
		options->header_bytes = strtoul(value, NULL, 10);
		break;
	case 'b':
		options->body_bytes = strtoul(value, NULL, 10);
		break;
	case 'u':
		options->buckets = true;
		break;
	default:
		usage();
	}
}

static void read_options(struct options *options, int argc, char **argv)
{
	static const struct option names[] = {{"mode", required_argument, NULL, 'm'},
		{"connections", required_argument, NULL, 'c'},
		{"seconds", required_argument, NULL, 's'}, {"warmup", required_argument, NULL, 'w'},
		{"count", required_argument, NULL, 'n'}, {"rate", required_argument, NULL, 'r'},
		{"callers", required_argument, NULL, 'k'}, {"sequential", no_argument, NULL, 'q'},
		{"path", required_argument, NULL, 'p'}, {"paths", required_argument, NULL, 'P'},
		{"header-bytes", required_argument, NULL, 'h'},
		{"body-bytes", required_argument, NULL, 'b'}, {"buckets", no_argument, NULL, 'u'},
		{NULL, 0, NULL, 0}};
	int letter;

	*options = (struct options){.connections = 32, .seconds = 3, .callers = 1, .path = "/1k"};
	while ((letter = getopt_long(argc, argv, "", names, NULL)) != -1)
		set_option(options, letter, optarg);
	if (optind != argc - 1 || !sockets_parse(argv[optind], &options->address) ||
		options->connections == 0 || (options->mode == MODE_OPEN && options->rate <= 0))
		usage();
}

static void set_bounds(struct load *load)
{
	const struct options *options = &load->options;

	load->start_ns = now_ns();
	load->end_ns = load->start_ns + (uint64_t)(options->seconds * (double)second_ns);
	load->to_send = options->count > 0 ? options->count : UINT64_MAX;
	if (options->count > 0 || options->mode == MODE_IDLE)
		load->end_ns = load->start_ns + 600 * second_ns;
	if (options->mode == MODE_OPEN)
		load->to_send = (uint64_t)(options->seconds * options->rate);
}

int main(int argc, char **argv)
{
	static struct load load = {.random = 0x9e3779b97f4a7c15ull};

	read_options(&load.options, argc, argv);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_TIMERSLACK,
		1000ul); /* else every wait for the next due request is 50 us late */
	sockets_raise_file_limit();
	load.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (load.epoll < 0)
		sockets_die("epoll_create1");
	make_template(&load);
	open_clients(&load);
	set_bounds(&load);
	if (load.options.mode == MODE_OPEN)
		run_open(&load);
	else if (load.options.mode == MODE_IDLE)
		run_idle(&load);
	else
		run_closed(&load, load.options.connections);
	double seconds = (double)(now_ns() - load.start_ns) / (double)second_ns;
	print_result(&load, seconds);
	return 0;
}
