/*
 * Sees when the files of certificates change, and has them read again (site/certificates.h).
 *
 *   inotify --something in a folder--> after SOON_MS: are they other files? --> read, in use
 *   a minute --------------------------^
 *
 * What is watched are the folders, of the files and of each symbolic link on the way to them, as
 * ACME clients and Kubernetes switch links. The watches are created again each time, as links may
 * lead elsewhere then. A file system that tells of no changes is looked at each minute.
 */
#ifndef DAEMON_CERTIFICATE_WATCH_H
#define DAEMON_CERTIFICATE_WATCH_H

#include <event2/event.h>
#include <stdbool.h>

struct daemon;
struct message;

struct certificate_watch {
	int inotify; /* -1: none */
	struct event *changed, *timer;
	bool is_soon; /* the timer is set to SOON_MS */
	/* Run after each look, for those that have certificates of their own; NULL: none. */
	struct message *looked;
};

/* Also makes daemon->tls, with the keys of tickets of the process before. False without memory.
 * Main thread, as the others. */
bool certificate_watch_begin(struct daemon *daemon);
void certificate_watch_end(struct daemon *daemon);

/* Looks now: the site's listeners may have other files. */
void certificate_watch_look(struct daemon *daemon);

#endif
