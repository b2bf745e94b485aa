#include "channels/grip_filter.h"

#include <string.h>

unsigned grip_filter_find(struct slice name)
{
	static const struct slice names[] = {
		SLICE("skip-self"), SLICE("skip-users"), SLICE("require-sub")};

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (slice_equal(name, names[i]))
			return 1u << i;
	return 0;
}

_Static_assert(GRIP_SKIP_SELF == 1 && GRIP_SKIP_USERS == 2 && GRIP_REQUIRE_SUB == 4,
	"they are in the order of their names");

static bool is_among(struct slice list, struct slice user)
{
	while (list.len > 0) {
		const char *comma = memchr(list.at, ',', list.len);
		size_t len = comma ? (size_t)(comma - list.at) : list.len;
		if (slice_equal(slice_trim((struct slice){list.at, len}), user))
			return true;
		len += comma != NULL;
		list = (struct slice){list.at + len, list.len - len};
	}
	return false;
}

bool grip_filter_skips(unsigned filters, const struct grip_meta *meta, struct slice user)
{
	if (user.len == 0)
		return false;
	return (filters & GRIP_SKIP_SELF && slice_equal(meta->sender, user)) ||
	       (filters & GRIP_SKIP_USERS && is_among(meta->skip_users, user));
}
