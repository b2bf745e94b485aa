/*
 * sluice-demo: a small upstream to try sluice with. A bank account is what needs its requests in
 * order: a withdrawal that overtakes the deposit before it is refused.
 */
#include "demo/handlers.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/listener.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { BODY_MAX_BYTES = 1 << 20, HEADERS_MAX_BYTES = 1 << 16, CLIENT_TIMEOUT_S = 600 };

static const char help[] =
	"usage: sluice-demo [--listen ADDRESS:PORT | --listen unix:PATH] [--quiet]\n"
	"A bank account over HTTP, to try sluice with.\n"
	"  -l, --listen ADDRESS:PORT  where to listen; port 0 takes a free one [127.0.0.1:8081]\n"
	"  -l, --listen unix:PATH     listen on a socket file; an old one at PATH is replaced\n"
	"  -q, --quiet                no line for each request\n"
	"  -h, --help                 this text\n"
	"Resources: GET /account, POST /deposit and /withdraw (?amount=5), /echo, /slow?ms=N\n";

static void on_signal(evutil_socket_t number, short events, void *argument)
{
	(void)number;
	(void)events;
	event_base_loopbreak(argument);
}

/* Prints where it listens, for people and for scripts that asked for port 0. */
static void announce(evutil_socket_t fd)
{
	struct sockaddr_storage address = {0};
	socklen_t len = sizeof(address);
	char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";

	if (getsockname(fd, (struct sockaddr *)&address, &len) == 0 &&
		address.ss_family == AF_UNIX) {
		printf("sluice-demo: listening on unix:%s\n",
			((struct sockaddr_un *)&address)->sun_path);
		fflush(stdout);
		return;
	}
	if (address.ss_family != AF_UNSPEC)
		getnameinfo((struct sockaddr *)&address, len, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	printf(address.ss_family == AF_INET6 ? "sluice-demo: listening on http://[%s]:%s\n"
					     : "sluice-demo: listening on http://%s:%s\n",
		host, port);
	fflush(stdout);
}

/* `127.0.0.1:80`, `[::1]:80` or `localhost:80`, to be freed with freeaddrinfo; NULL when it is
 * none. */
static struct addrinfo *parse_address(const char *where)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
	const char *colon = strrchr(where, ':');
	char host[NI_MAXHOST];
	struct addrinfo *found = NULL;
	size_t len = colon ? (size_t)(colon - where) : 0;

	if (len > 2 && where[0] == '[' && where[len - 1] == ']') {
		where++;
		len -= 2;
	}
	if (len == 0 || len >= sizeof(host) || colon[1] == '\0')
		return NULL;
	memcpy(host, where, len);
	host[len] = '\0';
	return getaddrinfo(host, colon + 1, &hints, &found) == 0 ? found : NULL;
}

static struct evconnlistener *bind_listener(
	struct event_base *base, const struct sockaddr *address, socklen_t len)
{
	return evconnlistener_new_bind(base, NULL, NULL,
		LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, -1, address,
		(int)len);
}

/* On a socket file. One that an earlier run left behind is removed; anything else is not. */
static struct evconnlistener *listen_on_file(struct event_base *base, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct stat about;

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	memcpy(address.sun_path, path, strlen(path));
	if (lstat(path, &about) == 0 && S_ISSOCK(about.st_mode))
		unlink(path);
	return bind_listener(base, (struct sockaddr *)&address, sizeof(address));
}

/* Listens on `where`; NULL after a line on stderr. */
static struct evconnlistener *listen_on(struct event_base *base, const char *where)
{
	struct evconnlistener *listener;

	if (strncmp(where, "unix:/", 6) == 0) {
		listener = listen_on_file(base, where + 5);
	} else {
		struct addrinfo *address = parse_address(where);

		if (!address) {
			fprintf(stderr,
				"sluice-demo: --listen %s: expected ADDRESS:PORT or unix:/PATH\n",
				where);
			return NULL;
		}
		listener = bind_listener(base, address->ai_addr, address->ai_addrlen);
		freeaddrinfo(address);
	}
	if (!listener)
		fprintf(stderr, "sluice-demo: cannot listen on %s: %s\n", where,
			evutil_socket_error_to_string(EVUTIL_SOCKET_ERROR()));
	return listener;
}

static int serve(struct demo *demo, const char *where)
{
	struct evhttp *http = evhttp_new(demo->base);
	struct evconnlistener *listener = http ? listen_on(demo->base, where) : NULL;
	struct event *interrupt = evsignal_new(demo->base, SIGINT, on_signal, demo->base);
	struct event *terminate = evsignal_new(demo->base, SIGTERM, on_signal, demo->base);
	int status = EXIT_FAILURE;

	if (listener && interrupt && terminate) {
		evutil_socket_t fd = evconnlistener_get_fd(listener);
		evsignal_add(interrupt, NULL);
		evsignal_add(terminate, NULL);
		evhttp_set_max_body_size(http, BODY_MAX_BYTES);
		evhttp_set_max_headers_size(http, HEADERS_MAX_BYTES);
		evhttp_set_timeout(http, CLIENT_TIMEOUT_S);
		demo_handlers_install(demo, http);
		/* From here on the listener is evhttp's to free. */
		if (evhttp_bind_listener(http, listener)) {
			announce(fd);
			event_base_dispatch(demo->base);
			status = EXIT_SUCCESS;
		}
	}
	if (interrupt)
		event_free(interrupt);
	if (terminate)
		event_free(terminate);
	if (http)
		evhttp_free(http);
	return status;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"listen", required_argument, NULL, 'l'},
		{"quiet", no_argument, NULL, 'q'},
		{"help", no_argument, NULL, 'h'},
		{NULL, 0, NULL, 0},
	};
	struct demo demo = {0};
	const char *where = "127.0.0.1:8081";
	int option;

	while ((option = getopt_long(argc, argv, "l:qh", options, NULL)) != -1) {
		switch (option) {
		case 'l':
			where = optarg;
			break;
		case 'q':
			demo.quiet = true;
			break;
		case 'h':
			fputs(help, stdout);
			return EXIT_SUCCESS;
		default:
			fputs(help, stderr);
			return 2;
		}
	}
	if (optind != argc) {
		fputs(help, stderr);
		return 2;
	}
	signal(SIGPIPE, SIG_IGN);
	demo.base = event_base_new();
	if (!demo.base) {
		fprintf(stderr, "sluice-demo: no event loop\n");
		return EXIT_FAILURE;
	}
	int status = serve(&demo, where);
	event_base_free(demo.base);
	libevent_global_shutdown();
	return status;
}
