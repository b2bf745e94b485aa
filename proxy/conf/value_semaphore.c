/* Where a semaphore's broker is, and how to be let in. See value.h. */
#include "conf/same.h"
#include "conf/value_url.h"

#include <string.h>

enum {
	PORT_DEFAULT = 5672,
	VHOST_MAX = 255, /* a short string of AMQP 0-9-1, section 4.2.5.3 */
};

/* amqp://[user:password@]host[:port][/vhost], as RabbitMQ's URI specification has it, but that a
 * path without a name is the virtual host "/", too. */
static bool parse_broker(struct value *value)
{
	struct conf_broker *broker = value->at;
	struct value_url url;

	*broker = (struct conf_broker){0};
	if (!value_read_url(value, value->text, SLICE("amqp://"), PORT_DEFAULT, &url))
		return false;
	if (url.user && !url.password)
		return value_fail(value, "there is a user without a password");
	if (memchr(url.path.at, '/', url.path.len))
		return value_fail(value, "the virtual host has a '/', which is written %%2F");
	if (memchr(url.path.at, '?', url.path.len) || memchr(url.path.at, '#', url.path.len))
		return value_fail(value, "unexpected text after the virtual host");
	broker->vhost = url.path.len > 0 ? value_decode_url(value, url.path) : "/";
	if (!broker->vhost)
		return value_fail(value, "the virtual host is not percent-encoded");
	if (strlen(broker->vhost) > VHOST_MAX)
		return value_fail(
			value, "the virtual host is longer than %d bytes", (int)VHOST_MAX);
	broker->address = url.address;
	broker->user = url.user;
	broker->password = url.password;
	return true;
}

const struct option_type type_broker = {"URL",
	"amqp://HOST:PORT, with USER:PASSWORD@ before the host and /VHOST behind it as needed",
	parse_broker, same_broker, false};
