#include "listen/client_entry.h"

#include <stdlib.h>
#include <string.h>

#include "throttle/throttle.h"
#include "worker/worker.h"
#include "worker/worker_clock.h"

static void give_places(struct worker *worker, struct client_entry *entry)
{
	struct throttle_receipt receipt = {.count = entry->held_count};

	memcpy(receipt.held, entry->held, entry->held_count * sizeof(receipt.held[0]));
	throttle_release(worker->node->throttles, &receipt, worker_throttle_ns(worker));
	free(entry->held);
}

void client_entry_end(struct worker *worker, struct client_entry *entry)
{
	if (!entry)
		return;
	if (entry->held_count > 0)
		give_places(worker, entry);
	tls_facts_clear(&entry->tls);
	free(entry);
}
