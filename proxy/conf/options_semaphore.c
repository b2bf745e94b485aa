/* Rows of [semaphore]. */
#include "conf/conf.h"
#include "conf/options.h"

#define COUNT(rows)        (sizeof(rows) / sizeof((rows)[0]))
#define BETWEEN(low, high) .min = (low), .max = (high)
#define LIVE               .reload = RELOAD_LIVE
#define AT(field)          OPTION_AT(struct conf_semaphore, field)

/* clang-format off */
const struct option options_semaphore[] = {
	{"broker", &type_broker, LIVE, AT(broker), .flags = OPTION_REQUIRED | OPTION_URL,
		.help = "The RabbitMQ (3.10 or later) that keeps the semaphore, and its virtual "
			"host."},
	{"password", &type_secret_line, LIVE, AT(password),
		.help = "File whose first line is the password for the broker, in place of one in "
			"its URL."},
	{"size", &type_count32, LIVE, AT(size), .fallback = "1", BETWEEN(1, 10000),
		.help = "Number of slots that sluice semaphore create makes."},
	{"nodes", &type_count32, LIVE, AT(nodes), .fallback = "0", BETWEEN(0, 10000),
		.help = "Maximum number of nodes, which share the slots while the broker is "
			"unavailable, each equally among its upstreams with this semaphore; 0 is the "
			"number of nodes seen recently."},
	{"heartbeat", &type_duration, LIVE, AT(heartbeat_ms), .fallback = "10s", BETWEEN(1000, 600000),
		.flags = OPTION_DURATION,
		.help = "Interval, in whole seconds, at which the broker and sluice check that "
			"the other is alive; slots of a silent node are free after at most three "
			"intervals."},
	{"broker_timeout", &type_duration, LIVE, AT(timeout_ms), .fallback = "10s", BETWEEN(1, 600000),
		.flags = OPTION_DURATION,
		.help = "Longest wait for a connection to the broker, and for each of its answers."},
};
const size_t options_semaphore_count = COUNT(options_semaphore);
OPTIONS_FIT(options_semaphore);
