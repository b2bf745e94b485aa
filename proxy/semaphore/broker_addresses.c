/* See broker_addresses.h. */
#include "semaphore/broker_addresses.h"

#include <event2/event.h>
#include <netdb.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "net/names.h"

/* So many name servers are asked in the time, where those before the last are silent. */
enum { SERVERS_IN_TIME = 3 };

struct search {
	struct event_base *base;
	struct broker_addresses *addresses;
	const char *why;
	bool is_over;
};

static void add(struct broker_addresses *addresses, const struct addrinfo *found)
{
	if (addresses->count == BROKER_ADDRESSES_MOST)
		return;
	if (getnameinfo(found->ai_addr, found->ai_addrlen, addresses->text[addresses->count],
		    BROKER_ADDRESS_BYTES, NULL, 0, NI_NUMERICHOST) == 0)
		addresses->count++;
}

static void take(void *ctx, const char *why, const struct addrinfo *list)
{
	struct search *search = ctx;

	for (const struct addrinfo *found = list; found; found = found->ai_next)
		add(search->addresses, found);
	search->why = why ? why : "it has no address";
	search->is_over = true;
	event_base_loopbreak(search->base);
}

static void look_up(
	struct search *search, struct names *names, const char *name, uint64_t timeout_ms)
{
	const struct timeval timeout = {.tv_sec = (time_t)(timeout_ms / 1000),
		.tv_usec = (suseconds_t)(timeout_ms % 1000 * 1000)};

	names_set_timeout(names, timeout_ms / SERVERS_IN_TIME);
	struct name_lookup *lookup = names_look_up(names, name, take, search);
	if (!lookup)
		return;
	search->why = "the name servers do not answer";
	if (event_base_loopexit(search->base, &timeout) == 0)
		event_base_dispatch(search->base);
	if (search->is_over)
		return;
	names_cancel(lookup);
	/* It is freed in a callback. */
	event_base_loop(search->base, EVLOOP_NONBLOCK);
}

const char *broker_addresses_find(
	struct broker_addresses *addresses, const char *name, uint64_t timeout_ms)
{
	struct search search = {
		.base = event_base_new(), .addresses = addresses, .why = "no memory"};
	struct names *names = search.base ? names_new(search.base) : NULL;

	addresses->count = 0;
	if (names)
		look_up(&search, names, name, timeout_ms);
	names_free(names);
	if (search.base)
		event_base_free(search.base);
	return addresses->count > 0 ? NULL : search.why;
}
