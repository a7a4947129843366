/* Preloaded into browsers of tests: they hear nothing of changes of the machine's network interfaces.

   Chromium ends the requests that it has under way when an interface gets or loses an address
   (net::ERR_NETWORK_CHANGED), also those on the loopback interface, and nodes of test clusters come and go. Without a
   netlink socket it takes the machine for connected, and follows no changes. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

int socket(int domain, int type, int protocol) {
  if (domain == AF_NETLINK) {
    errno = EPERM;
    return -1;
  }
  int (*next)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
  return next(domain, type, protocol);
}
