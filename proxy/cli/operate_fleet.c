/* See operate_fleet.h. */
#include "cli/operate_fleet.h"

#include <stdlib.h>
#include <time.h>

#include "cli/call.h"
#include "cli/table.h"

#define PATH "/api/v1/fleet"

enum { LOOKS_MOST = 600, LOOK_MS = 100 };

static void print_fleet(const json_t *answer)
{
	static const struct table_column columns[] = {{"NODE", "name", TABLE_TEXT},
		{"LEASE", "lease_ms", TABLE_MS}, {"THIS ONE", "self", TABLE_TEXT}};
	static const struct table_column limits[] = {{"LIMIT", "name", TABLE_TEXT},
		{"STORE DOWN", "store_down", TABLE_TEXT}, {"RUNG", "rung", TABLE_TEXT},
		{"QUOTA", "quota", TABLE_NUMBER}, {"SHARE", "share", TABLE_NUMBER}};

	static const struct table_column shares[] = {{"LIMIT", "limit", TABLE_TEXT},
		{"JUDGED BY", "judged_by", TABLE_TEXT}, {"SHARE", "units", TABLE_NUMBER},
		{"OF", "quota", TABLE_NUMBER}, {"NODES", "nodes", TABLE_NUMBER},
		{"HELD", "held_ms", TABLE_MS}};
	static const struct table_column replicas[] = {{"REPLICA", "address", TABLE_TEXT},
		{"ONLINE", "online", TABLE_TEXT}, {"BEHIND (BYTES)", "behind_bytes", TABLE_NUMBER},
		{"SILENT (S)", "silent_s", TABLE_NUMBER}};
	const json_t *copies = json_object_get(answer, "replicas");
	static const struct table_column primaries[] = {{"PRIMARY", "address", TABLE_TEXT},
		{"SLOTS", "slots", TABLE_NUMBER}, {"CONNECTED", "connected", TABLE_TEXT}};
	const json_t *of_cluster = json_object_get(answer, "primaries");
	const json_t *held = json_object_get(answer, "shares");

	table_print_members(stdout, answer);
	if (json_is_string(json_object_get(answer, "eviction")))
		printf("warning: the store may evict keys, and counters are lost with them; "
		       "expected maxmemory-policy noeviction\n");
	table_print(stdout, json_object_get(answer, "nodes"), columns,
		sizeof(columns) / sizeof(columns[0]));
	if (json_array_size(copies) > 0)
		table_print(stdout, copies, replicas, sizeof(replicas) / sizeof(replicas[0]));
	if (json_array_size(of_cluster) > 0)
		table_print(
			stdout, of_cluster, primaries, sizeof(primaries) / sizeof(primaries[0]));
	table_print(stdout, json_object_get(answer, "limits"), limits,
		sizeof(limits) / sizeof(limits[0]));
	if (json_array_size(held) > 0)
		table_print(stdout, held, shares, sizeof(shares) / sizeof(shares[0]));
}

/* 0 when there are so many; else an exit status. */
static int wait_for_nodes(struct call *call, size_t wanted)
{
	static const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
	size_t count = 0;

	for (int look = 0; look < LOOKS_MOST; look++) {
		json_t *answer;
		enum remote_result result = remote_call(&call->remote, "GET", PATH, NULL, &answer);
		if (result != REMOTE_OK)
			return result == REMOTE_REFUSED ? 1 : 3;
		count = json_array_size(json_object_get(answer, "nodes"));
		json_decref(answer);
		if (count >= wanted)
			return 0;
		nanosleep(&pause, NULL);
	}
	fprintf(stderr, "sluice fleet: there are %zu nodes, not %zu\n", count, wanted);
	return 1;
}

int cli_fleet(struct call *call)
{
	int status = 0;

	if (call->wait_nodes) {
		char *end;
		unsigned long wanted = strtoul(call->wait_nodes, &end, 10);
		if (*end || end == call->wait_nodes || wanted > 100000) {
			fprintf(stderr, "sluice fleet: invalid number \"%s\"\n", call->wait_nodes);
			return 2;
		}
		status = wait_for_nodes(call, wanted);
	}
	return status ? status : call_ask(call, "GET", PATH, NULL, print_fleet);
}
