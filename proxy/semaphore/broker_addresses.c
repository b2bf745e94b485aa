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

/* Once addresses of one family are known, the others are waited for so long at most: there are name
 * servers that do not answer for those of IPv6. */
enum { OTHERS_MS = 100 };

enum { FAMILIES = 2 };

struct search;

/* Each asks the name servers in their order by itself: those that the other one asks would count as
 * asked. */
struct family {
	struct search *search;
	struct names *names;
	struct name_lookup *lookup; /* NULL: it is over, or was not begun */
};

struct search {
	struct event_base *base;
	struct broker_addresses *addresses;
	const char *why;
	struct family families[FAMILIES];
};

static void add(struct broker_addresses *addresses, const struct addrinfo *found)
{
	if (addresses->count == BROKER_ADDRESSES_MOST)
		return;
	if (getnameinfo(found->ai_addr, found->ai_addrlen, addresses->text[addresses->count],
		    BROKER_ADDRESS_BYTES, NULL, 0, NI_NUMERICHOST) == 0)
		addresses->count++;
}

static bool is_over(const struct search *search)
{
	for (size_t i = 0; i < FAMILIES; i++)
		if (search->families[i].lookup)
			return false;
	return true;
}

/* False: without memory. */
static bool end_in(struct search *search, uint64_t ms)
{
	const struct timeval time = {
		.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)};

	return event_base_loopexit(search->base, &time) == 0;
}

static void take(void *ctx, const char *why, const struct addrinfo *list)
{
	struct family *family = ctx;
	struct search *search = family->search;

	family->lookup = NULL;
	for (const struct addrinfo *found = list; found; found = found->ai_next)
		add(search->addresses, found);
	search->why = why ? why : "it has no address";
	if (is_over(search) || (search->addresses->count > 0 && !end_in(search, OTHERS_MS)))
		event_base_loopbreak(search->base);
}

static void cancel(struct search *search)
{
	for (size_t i = 0; i < FAMILIES; i++)
		if (search->families[i].lookup)
			names_cancel(search->families[i].lookup);
	/* They are freed in callbacks. */
	event_base_loop(search->base, EVLOOP_NONBLOCK);
}

static void begin(struct search *search, const char *name, uint64_t timeout_ms)
{
	static const int families[FAMILIES] = {AF_INET, AF_INET6};

	for (size_t i = 0; i < FAMILIES; i++) {
		struct family *family = &search->families[i];
		family->search = search;
		family->names = names_new(search->base);
		if (!family->names)
			continue;
		names_set_timeout(family->names, timeout_ms / SERVERS_IN_TIME);
		family->lookup =
			names_look_up_family(family->names, name, families[i], take, family);
	}
}

static void look_up(struct search *search, const char *name, uint64_t timeout_ms)
{
	begin(search, name, timeout_ms);
	if (!is_over(search) && end_in(search, timeout_ms))
		event_base_dispatch(search->base);
	if (!is_over(search)) {
		search->why = "the name servers do not answer";
		cancel(search);
	}
	for (size_t i = 0; i < FAMILIES; i++)
		names_free(search->families[i].names);
}

const char *broker_addresses_find(
	struct broker_addresses *addresses, const char *name, uint64_t timeout_ms)
{
	struct search search = {
		.base = event_base_new(), .addresses = addresses, .why = "no memory"};

	addresses->count = 0;
	if (search.base) {
		look_up(&search, name, timeout_ms);
		event_base_free(search.base);
	}
	return addresses->count > 0 ? NULL : search.why;
}
