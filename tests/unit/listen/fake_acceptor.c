#include "fake_acceptor.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

struct fake_acceptor fake;
static const struct transport plain = {.name = "fake"};

void __wrap_acceptor_open(struct acceptor *acceptor, struct loop *loop, int fd,
	void (*ready)(struct acceptor *acceptor));
void __wrap_acceptor_close(struct acceptor *acceptor);
bool __wrap_acceptor_start(struct acceptor *acceptor);
void __wrap_acceptor_stop(struct acceptor *acceptor);
int __wrap_acceptor_take(struct acceptor *acceptor, struct stream_export *client,
	struct sockaddr_storage *peer, socklen_t *len);
bool __wrap_acceptor_has_client(const struct acceptor *acceptor);
int __wrap_acceptor_set_backlog(const struct acceptor *acceptor, int backlog);
bool __wrap_acceptor_keep_out(const struct acceptor *acceptor);
enum handshakes __wrap_acceptor_handshakes(const struct acceptor *acceptor);

void __wrap_acceptor_open(struct acceptor *acceptor, struct loop *loop, int fd,
	void (*ready)(struct acceptor *acceptor))
{
	(void)loop;
	assert_int_equal(fd, FAKE_DESCRIPTOR);
	acceptor->accepting = false;
	fake.ready = ready;
}

void __wrap_acceptor_close(struct acceptor *acceptor)
{
	acceptor->accepting = false;
	fake.closes++;
}

bool __wrap_acceptor_start(struct acceptor *acceptor)
{
	errno = ENOMEM;
	acceptor->accepting |= !fake.is_deaf;
	fake.starts++;
	return acceptor->accepting;
}

void __wrap_acceptor_stop(struct acceptor *acceptor)
{
	acceptor->accepting = false;
	fake.stops++;
}

int __wrap_acceptor_take(struct acceptor *acceptor, struct stream_export *client,
	struct sockaddr_storage *peer, socklen_t *len)
{
	(void)acceptor;
	*client = (struct stream_export){.transport = &plain};
	memset(peer, 0, sizeof(*peer));
	*len = sizeof(*peer);
	if (fake.error != 0)
		return fake.error;
	if (fake.waiting == 0)
		return EAGAIN;
	fake.waiting--;
	if (fake.next)
		*client = *fake.next;
	if (fake.peer_len > 0) {
		memcpy(peer, &fake.peer, fake.peer_len);
		*len = fake.peer_len;
	}
	fake.next = NULL;
	return 0;
}

bool __wrap_acceptor_has_client(const struct acceptor *acceptor)
{
	(void)acceptor;
	return fake.waiting > 0;
}

int __wrap_acceptor_set_backlog(const struct acceptor *acceptor, int backlog)
{
	(void)acceptor;
	fake.backlog = (unsigned)backlog;
	return 0;
}

bool __wrap_acceptor_keep_out(const struct acceptor *acceptor)
{
	(void)acceptor;
	fake.kept_out = true;
	errno = EPERM;
	return !fake.keeps_nothing_out;
}

enum handshakes __wrap_acceptor_handshakes(const struct acceptor *acceptor)
{
	(void)acceptor;
	return fake.handshakes;
}
