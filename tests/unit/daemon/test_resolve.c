/* Names of servers to addresses. What is found under a name is the test's. */
#include "daemon/resolve.h"

#include <arpa/inet.h>

#include "main_turn.h"
#include "net/names.h"
#include "tests/unit/suite.h"

/* The look-ups of names, also those that are over: the resolver may be told something again without
 * having to ask again. */
static struct query {
	char name[64];
	void (*found)(void *ctx, const char *why, const struct addrinfo *list);
	void *ctx;
} queries[8];
static unsigned query_count, cancelled;
static bool is_fake; /* in this suite, not in others of the program */

struct name_lookup *__real_names_look_up(struct names *names, const char *name,
	void (*found)(void *ctx, const char *why, const struct addrinfo *list), void *ctx);
void __real_names_cancel(struct name_lookup *lookup);
struct name_lookup *__wrap_names_look_up(struct names *names, const char *name,
	void (*found)(void *ctx, const char *why, const struct addrinfo *list), void *ctx);
void __wrap_names_cancel(struct name_lookup *lookup);

struct name_lookup *__wrap_names_look_up(struct names *names, const char *name,
	void (*found)(void *ctx, const char *why, const struct addrinfo *list), void *ctx)
{
	if (!is_fake)
		return __real_names_look_up(names, name, found, ctx);
	assert_non_null(names);
	assert_in_range(query_count, 0, sizeof(queries) / sizeof(queries[0]) - 1);
	struct query *query = &queries[query_count++];
	snprintf(query->name, sizeof(query->name), "%s", name);
	query->found = found;
	query->ctx = ctx;
	return (struct name_lookup *)(void *)query;
}

void __wrap_names_cancel(struct name_lookup *lookup)
{
	if (!is_fake) {
		__real_names_cancel(lookup);
		return;
	}
	assert_non_null(lookup);
	cancelled++;
}

static const struct stage_conf named = {
	.more = "[upstream v]\nserver = a.test:8\nserver = b.test:9\n"
		"resolve_interval = 1s\n"};

struct world {
	struct stage *stage;
	struct resolver *resolver;
	struct server_state *a, *b;
	unsigned known, left; /* calls */
};

static void known(void *ctx)
{
	((struct world *)ctx)->known++;
}

static void left(void *ctx)
{
	((struct world *)ctx)->left++;
}

static const struct resolver_calls resolver_calls = {known, left};

static void begin(struct world *w)
{
	*w = (struct world){.stage = stage_begin(&named)};
	query_count = cancelled = 0;
	w->a = w->stage->daemon.site->upstreams[1]->servers[0].state;
	w->b = w->stage->daemon.site->upstreams[1]->servers[1].state;
	w->resolver = resolver_new(w->stage->daemon.node.loop.base, &resolver_calls, w);
	assert_non_null(w->resolver);
	assert_true(resolver_prepare(w->resolver, w->stage->daemon.site));
	assert_true(resolver_is_waiting(w->resolver));
	main_turn(w->stage);
	assert_int_equal(query_count, 2); /* that of the address is not looked up */
}

static void end(struct world *w)
{
	resolver_free(w->resolver);
	stage_end(w->stage);
}

static struct query *query_of(const char *name)
{
	for (unsigned i = query_count; i-- > 0;)
		if (strcmp(queries[i].name, name) == 0)
			return &queries[i];
	fail_msg("%s is not looked up", name);
	return NULL;
}

/* Its name has these addresses, by blanks; NULL: the look-up fails. */
static void answer(const char *name, const char *addresses)
{
	struct addrinfo list[4] = {{0}};
	struct sockaddr_in sockets[4] = {{0}};
	char copy[128], *rest = NULL;
	unsigned count = 0;
	struct query *query = query_of(name);

	snprintf(copy, sizeof(copy), "%s", addresses ? addresses : "");
	for (char *one = strtok_r(copy, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
		sockets[count].sin_family = AF_INET;
		assert_int_equal(inet_pton(AF_INET, one, &sockets[count].sin_addr), 1);
		list[count].ai_family = AF_INET;
		list[count].ai_addr = (struct sockaddr *)&sockets[count];
		list[count].ai_addrlen = sizeof(sockets[count]);
		if (count > 0)
			list[count - 1].ai_next = &list[count];
		count++;
	}
	query->found(query->ctx, addresses ? NULL : "nothing is known of it", count ? list : NULL);
}

static void what_is_found_is_taken(void **state)
{
	struct world w;
	struct server_address address;

	(void)state;
	begin(&w);
	assert_false(server_addresses_get(&w.a->addresses, 0, &address));
	answer("a.test", "192.0.2.7 192.0.2.8");
	assert_int_equal(w.known, 0);
	assert_true(resolver_is_waiting(w.resolver));
	answer("b.test", "192.0.2.9");
	assert_int_equal(w.known, 1); /* all of them */
	assert_false(resolver_is_waiting(w.resolver));
	resolver_wait(w.resolver, 1000); /* at once */
	assert_int_equal(server_addresses_count(&w.a->addresses), 2);
	assert_int_equal(server_addresses_count(&w.b->addresses), 1);
	assert_true(server_addresses_get(&w.b->addresses, 0, &address));
	const struct sockaddr_in *in = (const void *)&address.socket;
	assert_int_equal(ntohs(in->sin_port), 9); /* the configuration's */
	assert_int_equal(in->sin_addr.s_addr, inet_addr("192.0.2.9"));
	end(&w);
}

static void a_failure_leaves_the_addresses(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	answer("a.test", NULL);
	assert_has(lines.text, "warn upstream v: server a.test:8: ");
	assert_has(lines.text, "; it has no address until its name resolves");
	answer("b.test", "192.0.2.9");
	assert_int_equal(w.known, 1); /* a failure is an answer */
	resolver_commit(w.resolver, w.stage->daemon.site);
	lines_clear();
	for (unsigned i = 0; i < 3; i++) { /* once an interval from then on */
		answer("a.test", NULL);
		answer("b.test", NULL);
	}
	assert_lacks(lines.text, "a.test");
	assert_has(lines.text, "server b.test:9: ");
	assert_has(lines.text, "; keeping its addresses");
	assert_int_equal(server_addresses_count(&w.b->addresses), 1);
	assert_int_equal(w.known, 1);
	lines_clear();
	answer("b.test", "192.0.2.10 192.0.2.11");
	assert_has(lines.text, "its name resolves again after 3 failed look-ups");
	assert_int_equal(server_addresses_count(&w.b->addresses), 2);
	answer("b.test", ""); /* found, and has none: as it was */
	assert_int_equal(server_addresses_count(&w.b->addresses), 2);
	answer("b.test", NULL); /* another run */
	assert_has(lines.text, "; keeping its addresses");
	end(&w);
}

/* What was prepared and dropped is not looked up any more; what both have continues. */
static void prepared_and_dropped(void **state)
{
	struct world w;

	(void)state;
	begin(&w);
	resolver_discard(w.resolver);
	assert_int_equal(cancelled, 2);
	assert_false(resolver_is_waiting(w.resolver));
	assert_int_equal(w.known, 0);
	assert_true(resolver_prepare(w.resolver, w.stage->daemon.site));
	main_turn(w.stage);
	assert_int_equal(query_count, 4);
	answer("a.test", "192.0.2.7");
	resolver_commit(w.resolver, w.stage->daemon.site); /* without waiting for the other */
	assert_false(resolver_is_waiting(w.resolver));
	answer("b.test", "192.0.2.9");
	assert_int_equal(server_addresses_count(&w.b->addresses), 1);
	assert_int_equal(w.known, 0);
	assert_true(resolver_prepare(w.resolver, w.stage->daemon.site));
	assert_false(resolver_is_waiting(w.resolver));
	resolver_discard(w.resolver); /* nothing new */
	assert_int_equal(cancelled, 2);
	end(&w);
	assert_int_equal(cancelled, 2); /* nothing was under way */
	resolver_free(NULL);
}

UNIT_SUITE(test_resolve)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_found_is_taken),
		cmocka_unit_test(a_failure_leaves_the_addresses),
		cmocka_unit_test(prepared_and_dropped),
	};

	is_fake = true;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
