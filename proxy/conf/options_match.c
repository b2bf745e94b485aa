/* Rows of [match]. */
#include "conf/match.h"
#include "conf/options.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define LIVE        .reload = RELOAD_LIVE
#define AT(field)   OPTION_AT(struct conf_match, field)

/* clang-format off */
const struct option options_match[] = {
	{"all", &type_tests, LIVE, AT(all), .flags = OPTION_REPEATABLE,
		.help = "Test of the request; each of these lines must hold."},
	{"any", &type_tests, LIVE, AT(any), .flags = OPTION_REPEATABLE,
		.help = "Test of the request; if there are such lines, at least one of them must "
			"hold."},
};
/* clang-format on */
const size_t options_match_count = COUNT(options_match);
OPTIONS_FIT(options_match);
