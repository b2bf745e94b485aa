/* Questions by number, and replies that find them or not. */
#include "gate/authority.h"

#include <assert.h>
#include <stdlib.h>

#include "base/container.h"

/* A number: the slot in its lower bits, above them how often that slot has been used. At a million
 * questions a second in one slot, it repeats after twelve days. */
#define SLOT_BITS   24
#define SLOTS_MOST  (UINT32_C(1) << SLOT_BITS)
#define SLOTS_FIRST 16

struct asker_slot {
	uint64_t number; /* the latest */
	void *whose;     /* NULL: free */
	uint32_t next;   /* free one + 1; 0: none */
};

void asker_init(struct asker *asker, struct loop *loop,
	void (*answered)(void *whose, enum authority_answer answer,
		const struct authority_judgement *judgement))
{
	*asker = (struct asker){.loop = loop, .answered = answered};
}

void asker_end(struct asker *asker)
{
	assert(asker->open == 0);
	free(asker->slots);
	*asker = (struct asker){0};
}

static bool add_slots(struct asker *asker)
{
	uint32_t count = asker->count > 0 ? asker->count * 2 : SLOTS_FIRST;
	struct asker_slot *slots;

	if (count > SLOTS_MOST)
		return false;
	slots = realloc(asker->slots, count * sizeof(*slots));
	if (!slots)
		return false;
	for (uint32_t i = count; i-- > asker->count;) {
		slots[i] = (struct asker_slot){.number = i, .next = asker->free};
		asker->free = i + 1;
	}
	asker->slots = slots;
	asker->count = count;
	return true;
}

uint64_t asker_open(struct asker *asker, void *whose)
{
	struct asker_slot *slot;

	assert(whose);
	if (asker->free == 0 && !add_slots(asker))
		return 0;
	slot = &asker->slots[asker->free - 1];
	asker->free = slot->next;
	asker->open++;
	slot->whose = whose;
	return slot->number += SLOTS_MOST; /* never 0 */
}

void *asker_close(struct asker *asker, uint64_t number)
{
	uint32_t index = (uint32_t)(number & (SLOTS_MOST - 1));
	struct asker_slot *slot;
	void *whose;

	if (index >= asker->count)
		return NULL;
	slot = &asker->slots[index];
	if (slot->number != number || !slot->whose)
		return NULL;
	whose = slot->whose;
	slot->whose = NULL;
	slot->next = asker->free;
	asker->free = index + 1;
	asker->open--;
	return whose;
}

static void deliver(struct message *message)
{
	struct authority_reply *reply = CONTAINER_OF(message, struct authority_reply, message);
	struct authority *authority = reply->authority;
	struct authority_judgement *judgement = &reply->judgement;
	void *whose = asker_close(reply->asker, reply->number);

	if (whose)
		reply->asker->answered(whose, reply->answer, judgement);
	else if (reply->answer == AUTHORITY_JUDGED && judgement->limits.admitted)
		authority->calls->refund(authority, &judgement->receipt);
	reply->delivered(reply);
}

void authority_reply(struct authority_reply *reply)
{
	assert(reply->answer != AUTHORITY_PENDING);
	reply->message.run = deliver;
	message_post(reply->asker->loop, &reply->message);
}
