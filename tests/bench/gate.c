/* gate and http: what each step of judging a request costs. `make bench-gate` prints ns a call, the
 * median of many rounds, for a typical request: 8 fields, 37 bytes of target, an API key.
 *
 * With 1 and with 1,000 routes; one caller and 100,000 in turn. The last lines are the whole way of
 * an admitted request, target to finish, and of a refused one, target to the written 429. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conf/conf.h"
#include "gate/gate.h"
#include "gate/ratelimit_fields.h"
#include "gate/route.h"
#include "http/forwarded.h"
#include "http/path.h"
#include "http/problem.h"
#include "http/target.h"
#include "http/text_head.h"

#define ROUNDS  31
#define CALLERS 100000u

struct bench {
	const struct conf *conf;
	struct throttle_table *table;
	struct gate *gate;
	struct ratelimit_texts *texts;
	struct route_table *routes;
	struct route_scratch *scratch;
	struct http_head head;
	struct forwarded_peer peer;
	const struct conf_route *route;
	struct identity_input input;
	struct gate_verdict verdict;
	struct gate_receipt receipt;
	char request[1024], key[17];
	size_t key_at;
	unsigned caller, callers;
	uint64_t now_ns;
	uint64_t sink; /* what keeps the compiler from leaving work out */
};

static const char request_text[] = "Host: api.example.com\n"
				   "User-Agent: curl/8.5.0 (x86_64-pc-linux-gnu)\n"
				   "Accept: application/json\n"
				   "X-Api-Key: 0123456789abcdef\n"
				   "Accept-Encoding: gzip, deflate\n"
				   "X-Request-Id: 7f9c2ba4e88f827d\n"
				   "Content-Type: application/json\n"
				   "Connection: keep-alive\n";

static void die(const char *what)
{
	fprintf(stderr, "bench-gate: %s\n", what);
	exit(1);
}

static const struct conf *make_conf(unsigned routes, const char *rate)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	struct conf_errors errors;

	fprintf(out,
		"[listener l]\nbind = 127.0.0.1:1\n[upstream u]\nserver = 127.0.0.1:2\n"
		"[limit burst]\nkey = header:X-Api-Key | ip\nrate = %s\n"
		"[route api]\npath = /v1/\nhost = api.example.com\nupstream = u\n"
		"limits = burst\n",
		rate);
	for (unsigned i = 1; i < routes; i++)
		fprintf(out, "[route r%u]\nhost = %s\npath = /v1/thing%u/\nupstream = u\n", i,
			i % 2 ? "api.example.com" : "*.example.com", i);
	fclose(out);
	const struct conf *conf = conf_parse(text, len, "bench.ini", NULL, &errors);
	if (!conf)
		die(errors.items[0].text);
	conf_errors_free(&errors);
	free(text);
	return conf;
}

static void make_head(struct bench *b)
{
	memcpy(b->request, request_text, sizeof(request_text));
	b->head = (struct http_head){.base = b->request, .major = 1, .minor = 1};
	b->head.fields = b->head.inline_fields;
	for (char *at = b->request; *at;) {
		char *colon = strchr(at, ':'), *end = strchr(at, '\n');
		struct slice name = {at, (size_t)(colon - at)};
		b->head.fields[b->head.field_count++] = (struct http_field){
			.name_at = (uint32_t)(at - b->request),
			.name_len = (uint16_t)name.len,
			.value_at = (uint32_t)(colon + 2 - b->request),
			.value_len = (uint32_t)(end - colon - 2),
			.id = (uint8_t)http_field_id(name),
		};
		http_head_note(&b->head, b->head.field_count - 1u);
		at = end + 1;
	}
	b->key_at = (size_t)(strstr(b->request, "0123456789abcdef") - b->request);
}

static void begin(struct bench *b, unsigned routes, const char *rate, unsigned callers)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201)};
	struct conf_cidrs none = {0};

	*b = (struct bench){.conf = make_conf(routes, rate), .callers = callers};
	b->now_ns = UINT64_C(1795000000000000000);
	struct throttle_limit *limits = gate_throttle_limits(b->conf, 0);
	const struct throttle_table_options options = {.callers = 2 * CALLERS, .now_ns = b->now_ns};
	b->table = throttle_table_open(&options, limits, b->conf->limit_count, NULL);
	free(limits);
	b->gate = b->table ? gate_new(b->conf, b->table) : NULL;
	b->texts = ratelimit_texts_new(b->conf);
	b->routes = route_table_new(b->conf);
	b->scratch = route_scratch_new();
	if (!b->gate || !b->texts || !b->routes || !b->scratch)
		die("no memory");
	make_head(b);
	forwarded_peer_init(&b->peer, (struct sockaddr *)&in, sizeof(in), &none);
}

static void end(struct bench *b)
{
	gate_free(b->gate);
	throttle_table_close(b->table);
	ratelimit_texts_free(b->texts);
	route_table_free(b->routes);
	route_scratch_free(b->scratch);
	conf_release(b->conf);
}

/* The next caller's key goes into the request. */
static void next_caller(struct bench *b)
{
	static const char hex[] = "0123456789abcdef";

	b->caller = b->caller + 1 < b->callers ? b->caller + 1 : 0;
	for (unsigned i = 0; i < 5; i++)
		b->request[b->key_at + i] = hex[b->caller >> (4 * i) & 15];
}

/* ---- steps ---------------------------------------------------------------------------------- */

static const struct slice target_text = {"/v1/thing17/items?page=2&per_page=100", 37};

static void step_field_ids(struct bench *b)
{
	for (unsigned i = 0; i < b->head.field_count; i++)
		b->sink += http_field_id(http_field_name(&b->head, &b->head.fields[i]));
}

static void step_target(struct bench *b)
{
	struct http_target target;

	b->sink += http_target_parse(target_text, HTTP_METHOD_GET, &target);
	b->input.path = target.path;
	b->input.query = target.query;
}

static void step_host(struct bench *b)
{
	struct http_authority authority;
	char out[HTTP_HOST_BYTES];

	b->sink += http_authority_parse(http_head_find(&b->head, HTTP_FIELD_HOST), &authority);
	b->input.host = http_authority_host(&authority, out);
}

static void step_path(struct bench *b)
{
	char out[256];
	bool odd;

	b->sink += http_path_normalise(b->input.path, out, sizeof(out), &b->input.path, &odd);
}

static void step_caller(struct bench *b)
{
	struct conf_cidrs none = {0};

	forwarded_caller(&b->head, &b->peer, &none, b->input.address);
}

static void step_route(struct bench *b)
{
	struct route_match match =
		route_match(b->routes, b->scratch, b->input.host, b->input.path, HTTP_METHOD_GET);

	b->route = match.route;
}

static void step_check(struct bench *b)
{
	b->input.head = &b->head;
	b->input.method = SLICE("GET");
	b->input.route = slice_of(b->route->name);
	b->now_ns += 1000;
	gate_check(b->gate, &b->conf->routes[b->route->index], &b->input, b->now_ns, 0, &b->verdict,
		&b->receipt);
}

static void step_finish(struct bench *b)
{
	struct gate_end how = {.status = 200};

	gate_finish(b->gate, b->route, &b->receipt, &how, b->now_ns);
}

static void step_check_and_finish(struct bench *b)
{
	next_caller(b);
	step_check(b);
	step_finish(b);
}

static void step_fields(struct bench *b)
{
	char text[512];
	struct field_sink sink = text_head_over(http_out_over(text, sizeof(text)));

	ratelimit_put(&sink, b->texts, CONF_RATELIMIT_DRAFT_11, &b->verdict, 0);
	b->sink += (uint64_t)text[0];
}

static void step_hops(struct bench *b)
{
	struct conf_cidrs none = {0};
	char text[512];
	struct http_out out = http_out_over(text, sizeof(text));

	forwarded_append_for(&out, &b->head, &b->peer);
	forwarded_append_proto(&out, &b->head, &b->peer, &none, false);
	forwarded_append_host(&out, &b->head, &b->peer, &none, b->input.host);
	forwarded_append_forwarded(&out, &b->head, &b->peer, b->input.host, false);
	forwarded_append_via(&out, &b->head, SLICE("sluice"));
	b->sink += (uint64_t)text[0];
}

static void step_refusal(struct bench *b)
{
	char content[HTTP_PROBLEM_BYTES], reply[HTTP_PROBLEM_BYTES];
	struct slice policies[GATE_LIMITS_MAX];
	struct http_out out = http_out_over(content, sizeof(content));
	struct field_sink sink = text_head_over(http_out_over(reply, sizeof(reply)));
	struct http_problem problem = {
		.status = 429,
		.retry_after_ms = b->verdict.retry_after_ms,
		.policies = policies,
		.policy_count = ratelimit_violated(&b->verdict, policies),
	};
	http_problem_put_content(&out, &problem);
	struct slice whole = {content, (size_t)(out.at - content)};
	text_head_status(&sink, 429, SLICE_NONE);
	field_put(&sink, SLICE("Date"), SLICE("Sat, 21 Nov 2026 04:00:00 GMT"));
	http_problem_put_fields(&sink, &problem, whole.len);
	ratelimit_put(&sink, b->texts, CONF_RATELIMIT_DRAFT_11, &b->verdict, 0);
	text_head_end(&sink);
	http_out_slice(&sink.out, whole);
	b->sink += (uint64_t)(sink.out.at - reply);
}

static void step_admitted(struct bench *b)
{
	next_caller(b);
	step_target(b);
	step_host(b);
	step_path(b);
	step_caller(b);
	step_route(b);
	step_check(b);
	step_finish(b);
}

static void step_refused(struct bench *b)
{
	next_caller(b);
	step_target(b);
	step_host(b);
	step_path(b);
	step_caller(b);
	step_route(b);
	step_check(b);
	step_refusal(b);
}

/* ---- measuring ------------------------------------------------------------------------------ */

static uint64_t clock_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void measure(struct bench *b, const char *what, void (*step)(struct bench *), unsigned calls)
{
	double ns[ROUNDS];

	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t begun = clock_ns();
		for (unsigned i = 0; i < calls; i++)
			step(b);
		ns[round] = (double)(clock_ns() - begun) / calls;
	}
	qsort(ns, ROUNDS, sizeof(ns[0]), compare);
	printf("%-44s %8.1f\n", what, ns[ROUNDS / 2]);
}

static void steps(unsigned calls)
{
	struct bench b;

	begin(&b, 1, "1000000000 per 1s", 1);
	measure(&b, "field ids of 8 names", step_field_ids, calls);
	measure(&b, "target", step_target, calls);
	measure(&b, "host", step_host, calls);
	measure(&b, "path", step_path, calls);
	measure(&b, "caller, untrusted peer", step_caller, calls);
	measure(&b, "route of 1", step_route, calls);
	measure(&b, "check + finish, one caller", step_check_and_finish, calls);
	b.callers = CALLERS;
	measure(&b, "check + finish, 100,000 callers", step_check_and_finish, calls);
	measure(&b, "RateLimit fields", step_fields, calls);
	measure(&b, "X-Forwarded-*, Forwarded, Via", step_hops, calls);
	b.callers = 1;
	measure(&b, "admitted, all of the way", step_admitted, calls);
	end(&b);

	begin(&b, 1000, "1000000000 per 1s", 1);
	step_target(&b);
	step_host(&b);
	measure(&b, "route of 1,000", step_route, calls);
	measure(&b, "admitted, all of the way, 1,000 routes", step_admitted, calls);
	end(&b);

	begin(&b, 1, "1 per 1000s", 1);
	step_target(&b);
	step_host(&b);
	step_route(&b);
	step_check(&b);
	step_check(&b);
	measure(&b, "a 429 with its fields, written", step_refusal, calls);
	measure(&b, "refused, all of the way", step_refused, calls);
	end(&b);
}

int main(int argc, char **argv)
{
	printf("%-44s %8s\n", "", "ns");
	steps(argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100000);
	return 0;
}
