#include "gate/route_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "gate/identity.h"

/* Steps of a request: what they take is about a millisecond at most. */
#define STEPS 40000
/* Passing so many bytes of the path is one more step. */
#define STEP_BYTES 16
/* Paths that are tried uncounted, and how much: the steps from all of their bytes together. */
#define SHORT_PATH_BYTES 256
#define SHORT_PATH_STEPS 4000

#define JIT_STACK_BYTES (256 * 1024)

struct route_scratch {
	pcre2_match_data *data;
	pcre2_match_context *uncounted, *counted;
	pcre2_jit_stack *stack;
	bool is_first;                     /* of the request's paths */
	int64_t steps_left;                /* of the request */
	size_t at;                         /* in the path, at the last step */
	const struct match_table *matches; /* route_scratch_ask */
	struct identity_input *input;
};

/* Called by PCRE at each step of an expression that is compiled to be counted. */
static int count_step(pcre2_callout_block *block, void *ctx)
{
	struct route_scratch *scratch = ctx;
	size_t at = block->current_position;
	size_t passed = at > scratch->at ? at - scratch->at : scratch->at - at;

	scratch->at = at;
	scratch->steps_left -= 1 + (int64_t)(passed / STEP_BYTES);
	return scratch->steps_left < 0 ? PCRE2_ERROR_CALLOUT : 0;
}

struct route_scratch *route_scratch_new(void)
{
	struct route_scratch *scratch = calloc(1, sizeof(*scratch));

	if (!scratch)
		return NULL;
	scratch->data = pcre2_match_data_create(1, NULL);
	scratch->uncounted = pcre2_match_context_create(NULL);
	scratch->counted = pcre2_match_context_create(NULL);
	scratch->stack = pcre2_jit_stack_create(16 * 1024, JIT_STACK_BYTES, NULL);
	if (!scratch->data || !scratch->uncounted || !scratch->counted) {
		route_scratch_free(scratch);
		return NULL;
	}
	pcre2_set_callout(scratch->counted, count_step, scratch);
	/* Without JIT there is no stack of it, and none is needed. */
	if (scratch->stack) {
		pcre2_jit_stack_assign(scratch->uncounted, NULL, scratch->stack);
		pcre2_jit_stack_assign(scratch->counted, NULL, scratch->stack);
	}
	route_regex_begin(scratch);
	return scratch;
}

void route_scratch_free(struct route_scratch *scratch)
{
	if (!scratch)
		return;
	pcre2_jit_stack_free(scratch->stack);
	pcre2_match_context_free(scratch->counted);
	pcre2_match_context_free(scratch->uncounted);
	pcre2_match_data_free(scratch->data);
	free(scratch);
}

void route_scratch_ask(struct route_scratch *scratch, const struct match_table *matches,
	struct identity_input *input)
{
	scratch->matches = matches;
	scratch->input = input;
}

bool route_scratch_holds(struct route_scratch *scratch, const struct conf_when *when)
{
	return scratch->input && matches_hold(scratch->matches, when, scratch->input);
}

bool route_scratch_is_undecided(const struct route_scratch *scratch)
{
	return scratch->input && scratch->input->matches.undecided;
}

void route_regex_begin(struct route_scratch *scratch)
{
	scratch->is_first = true;
	scratch->steps_left = STEPS;
}

void route_regex_go_on(struct route_scratch *scratch)
{
	scratch->is_first = false;
}

static enum route_regex outcome_of(int result)
{
	if (result >= 0)
		return ROUTE_REGEX_FITS;
	return result == PCRE2_ERROR_NOMATCH ? ROUTE_REGEX_FITS_NOT : ROUTE_REGEX_UNDECIDED;
}

static enum route_regex find_uncounted(
	struct route_scratch *scratch, const struct conf_regex *regex, struct slice text)
{
	pcre2_set_match_limit(scratch->uncounted, SHORT_PATH_STEPS / ((uint32_t)text.len + 1));
	return outcome_of(pcre2_match(regex->code, (PCRE2_SPTR)text.at, text.len, 0, 0,
		scratch->data, scratch->uncounted));
}

enum route_regex route_regex_find(
	struct route_scratch *scratch, const struct conf_regex *regex, struct slice text)
{
	if (scratch->is_first && text.len <= SHORT_PATH_BYTES) {
		enum route_regex found = find_uncounted(scratch, regex, text);
		if (found != ROUTE_REGEX_UNDECIDED)
			return found;
		scratch->steps_left -= SHORT_PATH_STEPS;
	}
	scratch->at = 0;
	if (scratch->steps_left <= 0)
		return ROUTE_REGEX_UNDECIDED;
	return outcome_of(pcre2_match(regex->counted, (PCRE2_SPTR)text.at, text.len, 0, 0,
		scratch->data, scratch->counted));
}
