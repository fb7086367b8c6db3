"""Servers that want TLS, a user and a password, with what a client has to be told."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any

from integration import servers
from integration.credentials.authority import Authority
from integration.harness.etcd import encoded
from integration.harness.finding import JARS, find_redis, find_zookeeper

__all__ = ["SENTINEL", "USER", "SecureEtcd", "SecureRedis", "SecureZooKeeper"]

USER = "app"
SENTINEL = "s3ntinel:P%w/ñ"
"""The password of ``USER``: it has to be quoted in a URL, and to be found nowhere else."""
ROOT_PASSWORD = "rootpw"


class SecureEtcd(servers.Etcd):
    """An etcd with TLS, users, and tokens that live as long as a test wants.

    Args:
        label: Of the server to be like.
        tls: Whether to speak TLS.
        mutual: Whether to ask clients for a certificate.
        token_ttl_s: After how many seconds without use a token is forgotten.
        prefix: The keys under which ``USER`` may read and write.
        grpc: Whether its URL asks for gRPC.
    """

    def __init__(
        self,
        label: str,
        *,
        tls: bool = True,
        mutual: bool = False,
        token_ttl_s: int = 300,
        prefix: str = "t-",
        certificate: str | None = None,
        grpc: bool = False,
    ) -> None:
        plain = servers.ALL[label].make()
        assert isinstance(plain, servers.Etcd)
        super().__init__(f"{label}-secure", plain.binary)
        plain.close()
        self.scheme = ("etcds" if tls else "etcd") + ("+grpc" if grpc else "")
        self.authority = Authority(self.home.with_name(f"{self.home.name}-tls"))
        self._certificate = certificate or self.authority.issue("server")
        self._tls = tls
        self._mutual = mutual
        self._token_ttl_s = token_ttl_s
        self._prefix = prefix
        self._token: str | None = None
        self.options: dict[str, Any] = {"username": USER, "password": SENTINEL}
        if tls:
            self.options["tls_ca"] = self.authority.ca
        if mutual:
            self.options["tls_cert"] = self.authority.issue("client")

    def command(self) -> Sequence[str]:
        # A cost of 4 makes a login take 1 ms, and not 60: here not the hash is tested.
        extra = [f"--auth-token-ttl={self._token_ttl_s}", "--bcrypt-cost=4"]
        if not self._tls:
            return [*super().command(), *extra]
        plain = f"http://127.0.0.1:{self.port}"
        command = [one.replace(plain, f"https://127.0.0.1:{self.port}") for one in super().command()]
        extra += [f"--cert-file={self._certificate}", f"--key-file={self._certificate}"]
        if self._mutual:
            extra += ["--client-cert-auth", f"--trusted-ca-file={self.authority.ca}"]
        return [*command, *extra]

    @cached_property
    def _context(self) -> ssl.SSLContext | None:
        if not self._tls:
            return None
        context = ssl.create_default_context(cafile=self.authority.ca)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # what is tested is the package's checking
        if self._mutual:
            context.load_cert_chain(self.options["tls_cert"])
        return context

    def ask(self, path: str, body: object = None, *, method: str = "POST", timeout_s: float = 5) -> Any:
        """Make one gateway call as root, once there are users."""
        status, answer = self.exchange(path, body, self._token, method=method, timeout_s=timeout_s)
        if status == 401:
            self.log_in()
            status, answer = self.exchange(path, body, self._token, method=method, timeout_s=timeout_s)
        if status != 200:
            raise RuntimeError(f"{path}: {status} {answer}")
        return answer

    def exchange(
        self, path: str, body: object, token: str | None, *, method: str = "POST", timeout_s: float = 5
    ) -> tuple[int, Any]:
        """Make one call, and return status and answer."""
        connection = self.connection(self._context, timeout_s)
        try:
            headers = {"Authorization": token} if token else {}
            connection.request(method, path, json.dumps({} if body is None else body), headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def log_in(self) -> None:
        """Be root."""
        self._token = None
        body = {"name": "root", "password": ROOT_PASSWORD}
        _, answer = self.exchange("/v3/auth/authenticate", body, None)
        self._token = answer["token"]

    def healthy(self) -> bool:
        with contextlib.suppress(OSError, ValueError):
            return bool(
                self.exchange("/health", None, None, method="GET", timeout_s=2)[1]["health"] == "true"
            )
        return False

    def start(self) -> Any:
        """Start it; the first time, make the users, with the least role that the package needs."""
        first = not (self.home / "data").exists()
        super().start()
        if first:
            for name, password in (("root", ROOT_PASSWORD), (USER, SENTINEL)):
                self.ask("/v3/auth/user/add", {"name": name, "password": password})
                self.ask("/v3/auth/role/add", {"name": name})
                self.ask("/v3/auth/user/grant", {"user": name, "role": name})
            for prefix in (self._prefix, f"~session/{self._prefix}"):
                self.permit(prefix)
            self.ask("/v3/auth/enable")
            self.log_in()
        return self

    def permit(self, prefix: str) -> None:
        """Let ``USER`` read and write all keys that begin with ``prefix``."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        perm = {"permType": "READWRITE", "key": encoded(prefix), "range_end": encoded(end)}
        self.ask("/v3/auth/role/grant", {"name": USER, "perm": perm})

    def forbid(self, prefix: str) -> None:
        """Undo `permit`."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        body = {"role": USER, "key": encoded(prefix), "range_end": encoded(end)}
        self.ask("/v3/auth/role/revoke", body)

    def change_password(self, password: str) -> None:
        """Give ``USER`` another password; all its tokens are forgotten."""
        self.ask("/v3/auth/user/changepw", {"name": USER, "password": password})

    def restart(self, *, wipe: bool = False) -> Any:
        assert not wipe, "a secure server keeps its users"
        return super().restart()


class SecureRedis(servers.Redis):
    """A Redis with TLS, and with a user, or a password alone.

    Args:
        tls: Whether to speak TLS.
        mutual: Whether to ask clients for a certificate.
        user: Whether there is ``USER``, and no other; else the password is enough.
        prefix: The keys under which ``USER`` may do what the package needs.
        certificate: Instead of a good one.
    """

    def __init__(
        self,
        *,
        tls: bool = True,
        mutual: bool = False,
        user: bool = True,
        prefix: str = "t-",
        certificate: str | None = None,
    ) -> None:
        super().__init__("redis-secure", find_redis())
        self.scheme = "rediss" if tls else "redis"
        self.authority = Authority(self.home.with_name(f"{self.home.name}-tls"))
        self.options = {"password": SENTINEL, "restart_grace": 0}  # it starts a moment before its tests
        self.client_options = {"password": ROOT_PASSWORD, "username": "root"}
        if user:
            self.options["username"] = USER
            self.settings["user default"] = "off"
        rights = f"~{prefix}* ~{{{prefix}* &{prefix}* &__redis__:invalidate +@all -@dangerous +info"
        named = USER if user else "default"
        self.settings[f"user {named}"] = f"on #{sha256(SENTINEL.encode()).hexdigest()} {rights}"
        self.settings["user root"] = f"on #{sha256(ROOT_PASSWORD.encode()).hexdigest()} ~* &* +@all"
        if tls:
            own = certificate or self.authority.issue("server")
            self.settings |= {"port": "0", "tls-port": str(self.port), "tls-ca-cert-file": self.authority.ca}
            self.settings |= {"tls-cert-file": own, "tls-key-file": own}
            self.settings["tls-auth-clients"] = "yes" if mutual else "no"
            self.options["tls_ca"] = self.authority.ca
            own = self.authority.issue("harness")
            # What is tested is the package's checking.
            self.client_options |= {"ssl": True, "ssl_cert_reqs": "none", "ssl_check_hostname": False}
            self.client_options |= {"ssl_certfile": own, "ssl_keyfile": own}
        if mutual:
            self.options["tls_cert"] = self.authority.issue("client")


class SecureZooKeeper(servers.ZooKeeper):
    """A ZooKeeper with TLS on its client port, and users by SASL or by ``digest``.

    Args:
        tls: Whether to speak TLS.
        mutual: Whether to ask clients for a certificate.
        sasl: Whether users are known by DIGEST-MD5; else ``digest`` takes any name.
    """

    def __init__(
        self, *, tls: bool = True, mutual: bool = False, sasl: bool = False, certificate: str | None = None
    ) -> None:
        super().__init__("zookeeper-3.8-secure", _java_with_netty())
        self.scheme = "zookeepers" if tls else "zookeeper"
        self.authority = Authority(self.home.with_name(f"{self.home.name}-tls"))
        self._certificate = certificate or self.authority.issue("server")
        self._tls = tls
        self._mutual = mutual
        self._sasl = sasl
        self.options: dict[str, Any] = {"username": USER, "password": SENTINEL}
        if sasl:
            self.options |= {"sasl": "DIGEST-MD5"}
        if tls:
            self.options["tls_ca"] = self.authority.ca
        if mutual:
            self.options["tls_cert"] = self.authority.issue("client")

    @property
    def kazoo_options(self) -> dict[str, Any]:
        """Return what a plain kazoo client has to be told, to be the same user with all rights."""
        told: dict[str, Any] = {}
        if self._sasl:
            # As bytes: pure-sasl hashes text in UTF-8, and Java hashes it in ISO 8859-1.
            password = SENTINEL.encode("latin-1")
            sasl = {"mechanism": "DIGEST-MD5", "username": USER, "password": password}
            told |= {"sasl_options": sasl}
        else:
            told |= {"auth_data": [("digest", f"{USER}:{SENTINEL}")]}
        if self._tls:
            told |= {"use_ssl": True, "ca": self.authority.ca, "certfile": self.options.get("tls_cert")}
            told |= {"keyfile": self.options.get("tls_cert")}
        return told

    def prepare(self) -> None:
        super().prepare()
        config = self.home / "zoo.cfg"
        settings: dict[str, object] = {}
        if self._tls:
            settings |= {
                "secureClientPort": self.port,
                "secureClientPortAddress": self.host,
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "ssl.keyStore.location": self._certificate,
                "ssl.keyStore.type": "PEM",
                "ssl.trustStore.location": self.authority.ca,
                "ssl.trustStore.type": "PEM",
                "ssl.clientAuth": "need" if self._mutual else "none",
                "ssl.hostnameVerification": "false",
            }
        if self._sasl:
            settings["authProvider.1"] = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
            (self.home / "jaas.conf").write_text(
                "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n"
                f'  user_{USER}="{SENTINEL}";\n}};\n'
            )
        lines = config.read_text().splitlines()
        if self._tls:
            lines = [line for line in lines if not line.startswith("clientPort")]
        config.write_text("\n".join([*lines, *(f"{name}={value}" for name, value in settings.items()), ""]))

    def command(self) -> Sequence[str]:
        command = list(super().command())
        if self._sasl:
            command.insert(1, f"-Djava.security.auth.login.config={self.home / 'jaas.conf'}")
        command.insert(1, "-Dfile.encoding=UTF-8")
        return command

    def ask(self, word: str, timeout_s: float = 5) -> str:
        with contextlib.ExitStack() as stack:
            sock: socket.socket = stack.enter_context(
                socket.create_connection((self.host, self.port), timeout_s)
            )
            if self._tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
                if self._mutual:
                    context.load_cert_chain(self.options["tls_cert"])
                sock = stack.enter_context(context.wrap_socket(sock))
            sock.sendall(word.encode())
            parts = []
            while part := sock.recv(65536):
                parts.append(part)
        return b"".join(parts).decode()


def _java_with_netty() -> servers.Java:
    """Return what runs a ZooKeeper with TLS; Debian's jar does not name all of Netty that it needs."""
    java = find_zookeeper()
    netty = JARS / "netty-codec.jar"
    if not netty.exists():
        return java
    return servers.Java(java.binary, os.pathsep.join((java.classpath, str(netty))))
