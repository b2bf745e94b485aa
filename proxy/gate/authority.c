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

struct question_slot {
	uint64_t number; /* the latest */
	void *whose;     /* NULL: free */
	uint32_t next;   /* free one + 1; 0: none */
};

void questions_init(struct questions *questions, struct loop *loop,
	void (*answered)(void *whose, enum authority_answer answer,
		const struct authority_judgement *judgement))
{
	*questions = (struct questions){.loop = loop, .answered = answered};
}

void questions_end(struct questions *questions)
{
	assert(questions->open == 0);
	free(questions->slots);
	*questions = (struct questions){0};
}

static bool add_slots(struct questions *questions)
{
	uint32_t count = questions->count > 0 ? questions->count * 2 : SLOTS_FIRST;
	struct question_slot *slots;

	if (count > SLOTS_MOST)
		return false;
	slots = realloc(questions->slots, count * sizeof(*slots));
	if (!slots)
		return false;
	for (uint32_t i = count; i-- > questions->count;) {
		slots[i] = (struct question_slot){.number = i, .next = questions->free};
		questions->free = i + 1;
	}
	questions->slots = slots;
	questions->count = count;
	return true;
}

uint64_t questions_open(struct questions *questions, void *whose)
{
	struct question_slot *slot;

	assert(whose);
	if (questions->free == 0 && !add_slots(questions))
		return 0;
	slot = &questions->slots[questions->free - 1];
	questions->free = slot->next;
	questions->open++;
	slot->whose = whose;
	return slot->number += SLOTS_MOST; /* never 0 */
}

void *questions_close(struct questions *questions, uint64_t number)
{
	uint32_t index = (uint32_t)(number & (SLOTS_MOST - 1));
	struct question_slot *slot;
	void *whose;

	if (index >= questions->count)
		return NULL;
	slot = &questions->slots[index];
	if (slot->number != number || !slot->whose)
		return NULL;
	whose = slot->whose;
	slot->whose = NULL;
	slot->next = questions->free;
	questions->free = index + 1;
	questions->open--;
	return whose;
}

static void deliver(struct message *message)
{
	struct authority_reply *reply = CONTAINER_OF(message, struct authority_reply, message);
	struct authority *authority = reply->authority;
	struct authority_judgement *judgement = &reply->judgement;
	void *whose = questions_close(reply->questions, reply->number);

	if (whose)
		reply->questions->answered(whose, reply->answer, judgement);
	else if (reply->answer == AUTHORITY_JUDGED && judgement->limits.admitted)
		authority->calls->refund(authority, &judgement->receipt);
	reply->delivered(reply);
}

void authority_reply(struct authority_reply *reply)
{
	assert(reply->answer != AUTHORITY_PENDING);
	reply->message.run = deliver;
	message_post(reply->questions->loop, &reply->message);
}
