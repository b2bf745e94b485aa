/* Rows of [fleet] and [semaphore]. */
#include "conf/conf.h"
#include "conf/options.h"

#define COUNT(rows)          (sizeof(rows) / sizeof((rows)[0]))
#define BETWEEN(low, high)   .min = (low), .max = (high)
#define LIVE                 .reload = RELOAD_LIVE
#define REQUIRES(key, value) .needs = {key, value, NULL, NULL, true}
#define AT(field)            OPTION_AT(struct conf, fleet.field)

static const struct option_word downs[] = {{"local", CONF_STORE_DOWN_LOCAL},
	{"strict", CONF_STORE_DOWN_STRICT}, {"refuse", CONF_STORE_DOWN_REFUSE},
	{"admit", CONF_STORE_DOWN_ADMIT}, {NULL, 0}};

/* clang-format off */
const struct option options_fleet[] = {
	{"store", &type_store, LIVE, AT(store), .flags = OPTION_REQUIRED | OPTION_URL,
		.help = "The Redis (7 or later, or Valkey) through which nodes share their "
			"counters; with sentinel, its Sentinels; with cluster, some nodes of a "
			"Redis Cluster."},
	{"password", &type_secret_line, LIVE, AT(password),
		.help = "File whose first line is the password for the store, in place of one in "
			"its URL, which then contains the user only (USER@)."},
	{"tls_ca", &type_path, LIVE, AT(tls.ca),
		.help = "With rediss://, PEM file of the certificates that sign those of the store; "
			"unset, the system's authorities."},
	{"tls_crl", &type_path, LIVE, AT(tls.crl),
		.help = "PEM file of revocation lists, one of each authority in the chain of the "
			"store's certificate; unset, revoked certificates are accepted until they "
			"expire."},
	{"tls_name", &type_tls_name, LIVE, AT(tls.name),
		.help = "Name that the certificates of the store, of all Sentinels and of all nodes "
			"of a cluster must have; unset, the host of each, which is an address where "
			"a Sentinel or a cluster tells it."},
	{"tls_verify", &type_flag, LIVE, AT(tls.verifies), .fallback = "on",
		.help = "Whether the store's certificate is verified. Without that, anybody on the "
			"way to the store can read and change what nodes share."},
	{"tls_versions", &type_words, LIVE, AT(tls.versions), .fallback = "1.2, 1.3",
		.words = option_tls_versions, .flags = OPTION_REPEATABLE,
		.help = "Versions of TLS towards the store."},
	{"tls_certificate", &type_path, LIVE, AT(tls.certificate),
		.help = "PEM file of a certificate with its chain behind it, which is presented to "
			"a store that asks for one."},
	{"tls_certificate_key", &type_path, LIVE, AT(tls.key),
		REQUIRES("tls_certificate", "FILE"),
		.help = "PEM file of the private key of tls_certificate; unset, that file has it."},
	{"cluster", &type_flag, LIVE, AT(cluster), .fallback = "off",
		.help = "Whether store lists nodes of a Redis Cluster, from which sluice "
			"discovers the others."},
	{"sentinel", &type_token, LIVE, AT(sentinel),
		.help = "Name of the primary at the Sentinels listed in store."},
	{"sentinel_user", &type_token, LIVE, AT(sentinel_user),
		REQUIRES("sentinel_password", "file:PATH"),
		.help = "User at the Sentinels, if they have users."},
	{"sentinel_password", &type_secret_line, LIVE, AT(sentinel_password),
		REQUIRES("sentinel", "NAME"),
		.help = "File whose first line is the password for the Sentinels."},
	{"prefix", &type_token, LIVE, AT(prefix), .fallback = "sluice",
		.help = "Prefix of all keys in the store; fleets that share a store need "
			"different prefixes."},
	{"node", &type_token, LIVE, AT(node),
		.help = "Name of this node, unique in the fleet; by default the machine's name "
			"and a random part."},
	{"membership_lease", &type_duration, LIVE, AT(membership_lease_ms), .fallback = "5s",
		BETWEEN(500, 600000), .flags = OPTION_DURATION,
		.help = "Time for which a node counts as a member after its last report to the "
			"store."},
	{"store_required", &type_flag, LIVE, AT(store_required), .fallback = "off",
		.help = "Whether /readyz answers 503 while a worker has no connection to the "
			"store."},
	{"store_timeout", &type_duration, LIVE, AT(store_timeout_ms), .fallback = "100ms",
		BETWEEN(1, 10000), .flags = OPTION_DURATION,
		.help = "Longest wait for a verdict of the store; after it store_down decides."},
	{"publish_interval", &type_duration, LIVE, AT(publish_interval_ms), .fallback = "500ms",
		BETWEEN(20, 60000), .flags = OPTION_DURATION,
		.help = "Longest time until the other nodes know the admissions of a node, for "
			"limits with fleet = relaxed."},
	{"store_quorum", &type_count32, LIVE, AT(store_quorum), .fallback = "0", BETWEEN(0, 100),
		.help = "Number of replicas that must confirm a charge within store_timeout for "
			"the verdict to be valid."},
	{"store_down", &type_word, LIVE, AT(store_down), .fallback = "local", .words = downs,
		.help = "Rule for limits of the fleet while the store does not answer: local "
			"gives each node its share of the limit at once, strict only when no "
			"window can exceed the limit as a result, refuse answers 503, admit lets "
			"all requests pass and charges nothing."},
	{"lost_share", &type_duration, LIVE, AT(lost_share_ms), .fallback = "1h",
		BETWEEN(10000, 604800000), .flags = OPTION_DURATION,
		.help = "With store_down = strict, time for which the share of a node that "
			"disappeared remains reserved for it, and the longest time for which that "
			"node uses it."},
	{"nodes", &type_count32, LIVE, AT(nodes), .fallback = "0", BETWEEN(0, 10000),
		.help = "Maximum number of nodes, by which limits are divided while the store "
			"does not answer; 0 is the number of nodes last known."},
	{"bind", &type_node_bind, LIVE, AT(bind),
		REQUIRES("secret", "file:PATH"),
		.help = "Address and port at which other nodes connect to this node; needs "
			"secret."},
	{"secret", &type_secret, LIVE, AT(secret),
		REQUIRES("bind", "ADDRESS:PORT"),
		.help = "Secret that two nodes prove to each other to have before one forwards "
			"requests to the other; it is never sent."},
	{"certificate", &type_path, LIVE, AT(links.certificate),
		REQUIRES("bind", "ADDRESS:PORT"),
		.help = "PEM file of this node's certificate with its chain behind it: connections "
			"between nodes are encrypted by TLS 1.3, and both nodes present and verify "
			"certificates. All nodes need it, and ca."},
	{"certificate_key", &type_path, LIVE, AT(links.key),
		REQUIRES("certificate", "FILE"),
		.help = "PEM file of the private key of certificate; unset, that file has it."},
	{"ca", &type_path, LIVE, AT(links.ca),
		REQUIRES("certificate", "FILE"),
		.help = "PEM file of the authorities that sign the nodes' certificates. Each "
			"certificate of theirs is a node's, whatever its name: use an authority of "
			"the fleet's own."},
	{"crl", &type_path, LIVE, AT(links.crl),
		REQUIRES("certificate", "FILE"),
		.help = "PEM file of revocation lists, one of each authority in the chain of a "
			"node's certificate; unset, revoked certificates are accepted until they "
			"expire."},
	{"lease", &type_duration, LIVE, AT(lease_ms), .fallback = "10s",
		BETWEEN(1000, 600000), .flags = OPTION_DURATION,
		.help = "Time for which the sessions of a node that died remain its own, with "
			"session_scope = fleet, and its health checks, with health_shared = on."},
	{"max_sessions", &type_count32, LIVE, AT(max_sessions), .fallback = "100000",
		BETWEEN(1, 10000000),
		.help = "Maximum number of sessions of routes with session_scope = fleet whose "
			"owner this node remembers; idle ones are dropped first, then requests of "
			"new sessions are answered 503."},
};
const size_t options_fleet_count = COUNT(options_fleet);
OPTIONS_FIT(options_fleet);

#undef AT
#define AT(field)          OPTION_AT(struct conf_semaphore, field)

/* clang-format off */
const struct option options_semaphore[] = {
	{"broker", &type_broker, LIVE, AT(broker), .flags = OPTION_REQUIRED | OPTION_URL,
		.help = "The RabbitMQ (3.10 or later) that keeps the semaphore, and its virtual "
			"host."},
	{"password", &type_secret_line, LIVE, AT(password),
		.help = "File whose first line is the password for the broker, in place of one in "
			"its URL."},
	{"tls_ca", &type_path, LIVE, AT(tls.ca),
		.help = "With amqps://, PEM file of the certificates that sign that of the broker; "
			"unset, the system's authorities."},
	{"tls_crl", &type_path, LIVE, AT(tls.crl),
		.help = "PEM file of revocation lists, one of each authority in the chain of the "
			"broker's certificate; unset, revoked certificates are accepted until they "
			"expire."},
	{"tls_name", &type_tls_name, LIVE, AT(tls.name),
		.help = "Name that the broker's certificate must have; unset, the host of its URL."},
	{"tls_verify", &type_flag, LIVE, AT(tls.verifies), .fallback = "on",
		.help = "Whether the broker's certificate is verified. Without that, anybody on the "
			"way to the broker can read and change what is sent."},
	{"tls_versions", &type_words, LIVE, AT(tls.versions), .fallback = "1.2, 1.3",
		.words = option_tls_versions, .flags = OPTION_REPEATABLE,
		.help = "Versions of TLS towards the broker."},
	{"tls_certificate", &type_path, LIVE, AT(tls.certificate),
		.help = "PEM file of a certificate with its chain behind it, which is presented to "
			"a broker that asks for one."},
	{"tls_certificate_key", &type_path, LIVE, AT(tls.key),
		REQUIRES("tls_certificate", "FILE"),
		.help = "PEM file of the private key of tls_certificate; unset, that file has it."},
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
