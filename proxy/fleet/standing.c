#include "fleet/standing.h"

/* Down only when it was so for a lease. */
static void follow(struct standing *standing, uint64_t asked_ms, uint64_t lease_ms, unsigned count)
{
	if (count >= standing->nodes) {
		standing->nodes = count;
		standing->fewer = 0;
		return;
	}
	if (standing->fewer == 0)
		standing->fewer_ms = asked_ms;
	if (count > standing->fewer)
		standing->fewer = count;
	if (asked_ms - standing->fewer_ms >= lease_ms) {
		standing->nodes = standing->fewer;
		standing->fewer = 0;
	}
}

unsigned standing_note(
	struct standing *standing, uint64_t asked_ms, uint64_t lease_ms, unsigned count)
{
	if (!standing->has_asked || asked_ms - standing->last_ms > lease_ms)
		standing->since_ms = asked_ms;
	standing->has_asked = true;
	standing->last_ms = asked_ms;
	if (asked_ms - standing->since_ms >= lease_ms)
		follow(standing, asked_ms, lease_ms, count);
	else if (standing->nodes > 0)
		standing->nodes = count > standing->nodes ? count : standing->nodes;
	else if (count == 1)
		standing->nodes = 1;
	return standing->nodes;
}
