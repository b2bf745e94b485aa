/* Rows of [limit], [plans] and [plan]. */
#include "conf/conf.h"
#include "conf/options.h"

#define COUNT(rows)        (sizeof(rows) / sizeof((rows)[0]))
#define MINUTES(n)         (60000ULL * (n))
#define MILLION            1000000ULL
#define BETWEEN(low, high) .min = (low), .max = (high)
#define LIVE               .reload = RELOAD_LIVE
#define NEEDS(key, value)  .needs = {key, value, NULL, NULL, false}

static const struct option_word algorithms[] = {
	{"ring", CONF_LIMIT_RING}, {"gcra", CONF_LIMIT_GCRA}, {NULL, 0}};

static const struct option_word modes[] = {{"enforce", false}, {"shadow", true}, {NULL, 0}};

static const struct option_word units[] = {{"requests", false}, {"connections", true}, {NULL, 0}};

static const struct option_word refusals[] = {{"reset", false}, {"close", true}, {NULL, 0}};

static const struct option_word scopes[] = {{"node", false}, {"fleet", true}, {NULL, 0}};

static const struct option_word fleet_ways[] = {{"lease", CONF_FLEET_LEASE},
	{"exact", CONF_FLEET_EXACT}, {"split", CONF_FLEET_SPLIT}, {"relaxed", CONF_FLEET_RELAXED},
	{NULL, 0}};

static const struct option_word downs[] = {{"local", CONF_STORE_DOWN_LOCAL},
	{"strict", CONF_STORE_DOWN_STRICT}, {"refuse", CONF_STORE_DOWN_REFUSE},
	{"admit", CONF_STORE_DOWN_ADMIT}, {NULL, 0}};

static const struct option_word unknowns[] = {
	{"default", CONF_UNKNOWN_DEFAULT}, {"refuse", CONF_UNKNOWN_REFUSE}, {NULL, 0}};

static const struct option_word lanes[] = {
	{"normal", CONF_LANE_NORMAL}, {"high", CONF_LANE_HIGH}, {NULL, 0}};

#define AT(field) OPTION_AT(struct conf_limit, field)
/* clang-format off */
const struct option options_limit[] = {
	{"key", &type_key, LIVE, AT(key), .fallback = "ip",
		.help = "Key expression that identifies the caller to charge."},
	{"rate", &type_rate, LIVE, AT(amount),
		.help = "Amount per period: requests or, with B, kB, MB, GB, KiB, MiB or GiB, "
			"bytes of bodies."},
	{"concurrency", &type_concurrency, LIVE, AT(amount), BETWEEN(1, 8191),
		.help = "In place of a rate: maximum number of a caller's requests in progress at "
			"once."},
	{"unit", &type_choice, LIVE, AT(of_connections), .fallback = "requests", .words = units,
		.help = "Whether the limit counts requests (or bytes, if its rate is in bytes), on "
			"routes and in plans, or the connections of a listener that names it in its "
			"limits: those opened in a period by rate, those open at once by "
			"concurrency. Its key may have ip, ip/BITS and all only."},
	{"refuse_by", &type_choice, LIVE, AT(refuses_by_close), .fallback = "reset",
		.words = refusals, NEEDS("unit", "connections"),
		.help = "How a connection over the limit ends, before TLS and before any byte of a "
			"request is read: by a reset, which costs the least, or by a close."},
	{"algorithm", &type_word, LIVE, AT(algorithm), .fallback = "ring", .words = algorithms,
		.help = "With ring, no window exceeds the rate; with gcra, requests are spaced "
			"evenly, with a burst."},
	{"burst", &type_count64, LIVE, AT(burst), .fallback = "0", BETWEEN(0, 1000 * MILLION),
		.help = "With gcra, number of requests that may arrive at once; 0 is the rate's "
			"amount."},
	{"precision", &type_precision, LIVE, AT(precision), .fallback = "auto", BETWEEN(1, 4095),
		.help = "With ring, number of times remembered for each caller; auto fits 128 "
			"bytes, exact is one for each request of the rate."},
	{"mode", &type_choice, LIVE, AT(shadow), .fallback = "enforce", .words = modes,
		.help = "With shadow, violations are counted and logged but not refused."},
	{"on_exceed", &type_on_exceed, LIVE, AT(delay_max_ms), .fallback = "reject",
		BETWEEN(1, MINUTES(60)), .flags = OPTION_DURATION,
		.help = "Whether a request over the limit is refused, or waits until it fits if "
			"that takes no longer than the duration."},
	{"count_refused", &type_flag, LIVE, AT(count_refused), .fallback = "off",
		.help = "Whether refused requests are charged, too."},
	{"scope", &type_choice, LIVE, AT(of_fleet), .fallback = "node", .words = scopes,
		.help = "Whether each node counts for itself, or all nodes of the fleet together."},
	{"fleet", &type_word, LIVE, AT(fleet_way), .fallback = "lease", .words = fleet_ways,
		NEEDS("scope", "fleet"),
		.help = "With scope = fleet, how nodes share the limit: lease takes parts of it "
			"in advance, exact asks the store for each verdict, split divides it "
			"among the nodes, relaxed lets each node decide and publishes its "
			"admissions."},
	{"store_down", &type_word, LIVE, AT(store_down), .words = downs,
		NEEDS("scope", "fleet"),
		.help = "With scope = fleet, rule for this limit while the store does not answer, "
			"in place of the one in [fleet]."},
	{"when", &type_when, LIVE, AT(when), .flags = OPTION_REPEATABLE,
		.help = "Matches that must hold, or with ! must not, for the limit to apply."},
	{"was", &type_text, LIVE, AT(was),
		.help = "Previous name of the limit, whose counters it continues, over a reload "
			"or a restart."},
	{"ban", &type_ban, LIVE, AT(ban), .fallback = "off",
		.help = "After this number of refusals in this time, all requests of the caller "
			"are refused for the given time."},
};
const size_t options_limit_count = COUNT(options_limit);
OPTIONS_FIT(options_limit);

const struct option options_plans[] = {
	{"key", &type_key, LIVE, OPTION_AT(struct conf, plans_key), .flags = OPTION_REQUIRED,
		.help = "Key expression that is looked up in the plans' lists of callers."},
	{"unknown", &type_word, LIVE, OPTION_AT(struct conf, unknown),
		.fallback = "default", .words = unknowns,
		.help = "Treatment of callers on no list: the plan default, or 401 without a key "
			"and 403 with one."},
};
const size_t options_plans_count = COUNT(options_plans);
OPTIONS_FIT(options_plans);

#undef AT
#define AT(field) OPTION_AT(struct conf_plan, field)
const struct option options_plan[] = {
	{"limits", &type_references, LIVE, AT(limits), .flags = OPTION_REPEATABLE,
		.help = "Limits of the plan's callers, on routes whose limits include plan."},
	{"lane", &type_word, LIVE, AT(lane), .fallback = "normal", .words = lanes,
		.help = "Lane of the plan's callers."},
	{"weight", &type_count32, LIVE, AT(weight), .fallback = "1", BETWEEN(1, 1000),
		.help = "Share of each of the plan's callers at a busy upstream."},
	{"when", &type_when, LIVE, AT(when), .flags = OPTION_REPEATABLE,
		.help = "Matches that must hold, or with ! must not, for callers on no list to "
			"get this plan: the first in the file whose matches do."},
	{"callers", &type_callers, LIVE, AT(callers_path),
		.help = "File of the callers' keys, one per line, or sha256: and the hexadecimal "
			"SHA-256 of a key; required in all plans but default and those with when, "
			"unless there is an [admin]."},
};
const size_t options_plan_count = COUNT(options_plan);
OPTIONS_FIT(options_plan);
