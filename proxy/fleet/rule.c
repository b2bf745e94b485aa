#include "fleet/rule.h"

enum { SLOTS_DEFAULT = 31, SLOTS_MOST = 255 };

struct rule rule_of(const struct conf_limit *limit)
{
	uint64_t slots = limit->precision == CONF_PRECISION_EXACT ? SLOTS_MOST
			 : limit->precision > 0                   ? limit->precision
								  : SLOTS_DEFAULT;
	struct rule rule = {
		.quota = limit->amount,
		.window_us = limit->per_ns / 1000 + (limit->per_ns % 1000 != 0),
		.quantum_us = 1,
		.shadow = limit->shadow,
	};

	if (limit->amount > slots) {
		uint64_t parts = slots > 1 ? slots - 1 : 1;
		rule.quantum_us = (rule.window_us + parts - 1) / parts;
	}
	return rule;
}
