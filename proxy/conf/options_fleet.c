/* Rows of [fleet]. */
#include "conf/conf.h"
#include "conf/options.h"

#define COUNT(rows)        (sizeof(rows) / sizeof((rows)[0]))
#define BETWEEN(low, high) .min = (low), .max = (high)
#define LIVE               .reload = RELOAD_LIVE
#define AT(field)          .offset = offsetof(struct conf, fleet.field)

static const struct option_word downs[] = {{"local", CONF_STORE_DOWN_LOCAL},
	{"strict", CONF_STORE_DOWN_STRICT}, {"refuse", CONF_STORE_DOWN_REFUSE},
	{"admit", CONF_STORE_DOWN_ADMIT}, {NULL, 0}};

/* clang-format off */
const struct option options_fleet[] = {
	{"store", &type_store, LIVE, AT(store), .flags = OPTION_REQUIRED | OPTION_URL,
		.help = "The Redis (7 or later, or Valkey) through which nodes share what they count; with "
			"sentinel, its Sentinels; with cluster, some nodes of a Redis Cluster."},
	{"password", &type_secret_line, LIVE, AT(password),
		.help = "File whose first line is the password for the store, instead of one in its URL, which "
			"then has the user alone (USER@)."},
	{"cluster", &type_flag, LIVE, AT(cluster), .fallback = "off",
		.help = "Whether store lists nodes of a Redis Cluster, from which the others are learned."},
	{"sentinel", &type_token, LIVE, AT(sentinel),
		.help = "The primary's name at the Sentinels that store lists."},
	{"sentinel_user", &type_token, LIVE, AT(sentinel_user),
		.help = "User at the Sentinels, where they have users."},
	{"sentinel_password", &type_secret_line, LIVE, AT(sentinel_password),
		.help = "File whose first line is the password for the Sentinels."},
	{"prefix", &type_token, LIVE, AT(prefix), .fallback = "sluice",
		.help = "What the store's keys begin with; fleets that share a store have one each."},
	{"node", &type_token, LIVE, AT(node),
		.help = "This node's name, which no other node may have; without it, the machine's name "
			"and a random part."},
	{"membership_lease", &type_duration, LIVE, AT(membership_lease_ms), .fallback = "5s",
		BETWEEN(500, 600000), .flags = OPTION_DURATION,
		.help = "How long a node counts as a member after it last told the store."},
	{"store_required", &type_flag, LIVE, AT(store_required), .fallback = "off",
		.help = "Whether /readyz says no while a worker has no connection to the store."},
	{"store_timeout", &type_duration, LIVE, AT(store_timeout_ms), .fallback = "20ms",
		BETWEEN(1, 10000), .flags = OPTION_DURATION,
		.help = "Longest wait for a verdict of the store; then store_down decides."},
	{"publish_interval", &type_duration, LIVE, AT(publish_interval_ms), .fallback = "500ms",
		BETWEEN(20, 60000), .flags = OPTION_DURATION,
		.help = "Longest time for which other nodes do not know what a node has admitted of a limit "
			"with fleet = relaxed."},
	{"store_quorum", &type_count32, LIVE, AT(store_quorum), .fallback = "0", BETWEEN(0, 100),
		.help = "How many replicas must have what was counted before it counts as answered, within "
			"store_timeout."},
	{"store_down", &type_word, LIVE, AT(store_down), .fallback = "local", .words = downs,
		.help = "What limits of the fleet do while the store does not answer: local gives each node "
			"its share of the limit at once, strict when no window can hold more than the limit by "
			"that, refuse answers 503, admit lets all requests pass and charges nothing."},
	{"lost_share", &type_duration, LIVE, AT(lost_share_ms), .fallback = "1h",
		BETWEEN(10000, 604800000), .flags = OPTION_DURATION,
		.help = "With store_down = strict, how long the share of a node that has left without a word "
			"is left to it, and at most how long it uses that."},
	{"nodes", &type_count32, LIVE, AT(nodes), .fallback = "0", BETWEEN(0, 10000),
		.help = "How many nodes there are at most, which share a limit while the store does not "
			"answer; 0: as many as it last knew of."},
	{"bind", &type_node_bind, LIVE, AT(bind),
		.help = "Address where other nodes connect, as they know it, with its port; needs secret."},
	{"secret", &type_secret, LIVE, AT(secret),
		.help = "What nodes prove to each other to have before one forwards to another; it is never "
			"sent."},
	{"lease", &type_duration, LIVE, AT(lease_ms), .fallback = "10s",
		BETWEEN(1000, 600000), .flags = OPTION_DURATION,
		.help = "How long a session stays with a node that owned it and died, with session_scope = "
			"fleet, and health checks with a node that made them, with health_shared = on."},
	{"max_sessions", &type_count32, LIVE, AT(max_sessions), .fallback = "100000",
		BETWEEN(1, 10000000),
		.help = "How many sessions of routes with session_scope = fleet this node remembers the owner "
			"of; idle ones are given up first, then requests of new ones are answered 503."},
};
const size_t options_fleet_count = COUNT(options_fleet);
OPTIONS_FIT(options_fleet);
