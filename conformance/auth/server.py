"""Authorization server of auth.sh, on Authlib. It signs access tokens (RFC 9068), registers clients, and grants every
request of the user alice at once. Usage: server.py PORT

Paths below /control change it for a test: rotate, lifetime, forge, which returns a token with a flaw, and client, which
registers a client with a public key."""

import base64
import json
import sys
import time

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import grants
from authlib.oauth2.rfc6749.models import AuthorizationCodeMixin, ClientMixin, TokenMixin
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7523 import JWTBearerClientAssertion
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc7662 import IntrospectionEndpoint
from authlib.oauth2.rfc8628 import DeviceAuthorizationEndpoint, DeviceCodeGrant, DeviceCredentialDict
from authlib.oauth2.rfc9207.parameter import IssuerParameter
from flask import Flask, jsonify, request
from joserfc import jwt
from joserfc.jwk import ECKey

PORT = int(sys.argv[1])
ISSUER = f"http://127.0.0.1:{PORT}"
METHODS = ["none", "client_secret_basic", "client_secret_post"]

app = Flask(__name__)
clients, codes, tokens, devices = {}, {}, [], {}
state = {"lifetime": 600, "serial": 0}


def new_key():
    state["serial"] += 1
    key = ECKey.generate_key("P-256", {"kid": f"key-{state['serial']}", "use": "sig", "alg": "ES256"})
    state["key"] = key


new_key()


class Client(ClientMixin):
    def __init__(self, info, metadata):
        self.info, self.metadata = info, metadata

    client_info = property(lambda self: self.info)
    client_metadata = property(lambda self: self.metadata)

    def get_client_id(self):
        return self.info["client_id"]

    def get_default_redirect_uri(self):
        return (self.metadata.get("redirect_uris") or [None])[0]

    def get_allowed_scope(self, scope):
        return scope or ""

    def check_redirect_uri(self, redirect_uri):
        # A loopback address may have any port (RFC 8252, section 7.3).
        def path(uri):
            return uri.rsplit(":", 1)[-1].split("/", 1)[-1] if uri.startswith("http://127.0.0.1") else uri

        return path(redirect_uri) in map(path, self.metadata.get("redirect_uris", []))

    def check_client_secret(self, client_secret):
        return self.info.get("client_secret") == client_secret

    def check_endpoint_auth_method(self, method, endpoint):
        return method == self.metadata.get("token_endpoint_auth_method", "client_secret_basic")

    def check_response_type(self, response_type):
        return response_type == "code"

    def check_grant_type(self, grant_type):
        return True


class Token(TokenMixin):
    def __init__(self, client_id, user, values):
        self.client_id, self.user, self.values = client_id, user, values
        self.issued, self.revoked = time.time(), False

    def check_client(self, client):
        return client.get_client_id() in (self.client_id, "resource")

    def get_scope(self):
        return self.values.get("scope", "")

    def get_expires_in(self):
        return self.values["expires_in"]

    def is_expired(self):
        return time.time() > self.issued + self.get_expires_in()

    def is_revoked(self):
        return self.revoked

    def get_user(self):
        return self.user

    def get_client(self):
        return clients[self.client_id]


class Code(AuthorizationCodeMixin):
    def __init__(self, payload, code, user):
        data = payload.payload.data
        self.code, self.user, self.client_id = code, user, payload.payload.client_id
        self.redirect_uri, self.scope = data.get("redirect_uri"), data.get("scope", "")
        self.code_challenge, self.code_challenge_method = data.get("code_challenge"), data.get("code_challenge_method")

    def get_redirect_uri(self):
        return self.redirect_uri

    def get_scope(self):
        return self.scope


def access_token(client, grant_type, user, scope, **changes):
    now = int(time.time())
    claims = {
        "iss": ISSUER, "sub": user or client.get_client_id(), "aud": request.form.get("resource"), "client_id": client.get_client_id(),
        "scope": scope or "", "iat": now, "exp": now + state["lifetime"], "jti": f"{time.time_ns()}",
    }
    claims.update(changes)
    key = state["key"]
    return jwt.encode({"alg": "ES256", "kid": key.kid, "typ": "at+jwt"}, claims, key)


def save_token(values, payload):
    tokens.append(Token(payload.client.get_client_id(), payload.user, values))


app.config["OAUTH2_ACCESS_TOKEN_GENERATOR"] = access_token
app.config["OAUTH2_REFRESH_TOKEN_GENERATOR"] = True
app.config["OAUTH2_TOKEN_EXPIRES_IN"] = {}
server = AuthorizationServer(app, query_client=clients.get, save_token=save_token)


class AuthorizationCode(grants.AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS

    def save_authorization_code(self, code, payload):
        codes[code] = Code(payload, code, payload.user)

    def query_authorization_code(self, code, client):
        found = codes.get(code)
        return found if found and found.client_id == client.get_client_id() else None

    def delete_authorization_code(self, code):
        codes.pop(code.code)

    def authenticate_user(self, code):
        return code.user


class Refresh(grants.RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, text):
        return next((t for t in tokens if t.values.get("refresh_token") == text and not t.revoked), None)

    def authenticate_user(self, token):
        return token.user

    def revoke_old_credential(self, token):
        token.revoked = True


class Credentials(grants.ClientCredentialsGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = [*METHODS, "private_key_jwt"]


class Assertion(JWTBearerClientAssertion):
    CLIENT_AUTH_METHOD = "private_key_jwt"

    def get_audiences(self):
        return [ISSUER, f"{ISSUER}/token"]

    def validate_jti(self, claims, jti):
        used = state.setdefault("assertions", set())
        return jti not in used and not used.add(jti)

    def resolve_client_public_key(self, client):
        return client.info["public_key"]

    def process_assertion_claims(self, assertion, resolve_key):
        # Without a list, joserfc does not accept EdDSA.
        self.verify_claims(jwt.decode(assertion, resolve_key, algorithms=["ES256", "EdDSA"]).claims)


class Device(DeviceCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS

    def query_device_credential(self, device_code):
        return next((d for d in devices.values() if d["device_code"] == device_code), None)

    def query_user_grant(self, user_code):
        return ("alice", True) if devices[user_code].get("granted") else None

    def should_slow_down(self, credential):
        return False


class DeviceEndpoint(DeviceAuthorizationEndpoint):
    CLIENT_AUTH_METHODS = METHODS
    INTERVAL = 1

    def get_verification_uri(self):
        return f"{ISSUER}/device"

    def save_device_credential(self, client_id, scope, data):
        credential = DeviceCredentialDict(data, client_id=client_id, scope=scope, expires_at=time.time() + 600)
        devices[data["user_code"]] = credential


class Registration(ClientRegistrationEndpoint):
    def authenticate_token(self, request):
        return "anyone"

    def get_server_metadata(self):
        return {}

    def save_client(self, info, metadata, request):
        client = Client(info, metadata)
        clients[client.get_client_id()] = client
        return client


class Introspection(IntrospectionEndpoint):
    def query_token(self, text, hint):
        return next((t for t in tokens if t.values["access_token"] == text), None)

    def check_permission(self, token, client, request):
        return client.get_client_id() == "resource"

    def introspect_token(self, token):
        payload = token.values["access_token"].split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return {"active": not (token.is_revoked() or token.is_expired()), **claims}


class Revocation(RevocationEndpoint):
    CLIENT_AUTH_METHODS = METHODS

    def query_token(self, text, hint):
        return next((t for t in tokens if text in (t.values["access_token"], t.values.get("refresh_token"))), None)

    def revoke_token(self, token, request):
        token.revoked = True


class Issuer(IssuerParameter):
    def get_issuer(self):
        return ISSUER


server.register_grant(AuthorizationCode, [CodeChallenge(required=True)])
server.register_grant(Refresh)
server.register_grant(Credentials)
server.register_client_auth_method(Assertion.CLIENT_AUTH_METHOD, Assertion())
server.register_grant(Device)
server.register_extension(Issuer())
for endpoint in (DeviceEndpoint, Registration, Introspection, Revocation):
    server.register_endpoint(endpoint)
clients["resource"] = Client({"client_id": "resource", "client_secret": "resource-secret"}, {})
clients["sensor"] = Client({"client_id": "sensor", "client_secret": "sensor-secret"}, {})


@app.get("/.well-known/oauth-authorization-server")
def metadata():
    return jsonify(
        issuer=ISSUER, authorization_endpoint=f"{ISSUER}/authorize", token_endpoint=f"{ISSUER}/token",
        registration_endpoint=f"{ISSUER}/register", revocation_endpoint=f"{ISSUER}/revoke",
        introspection_endpoint=f"{ISSUER}/introspect", jwks_uri=f"{ISSUER}/jwks.json",
        device_authorization_endpoint=f"{ISSUER}/device_authorization", response_types_supported=["code"],
        grant_types_supported=["authorization_code", "refresh_token", "client_credentials", Device.GRANT_TYPE],
        code_challenge_methods_supported=["S256"], token_endpoint_auth_methods_supported=METHODS,
        authorization_response_iss_parameter_supported=True,
    )


@app.get("/authorize")
def authorize():
    return server.create_authorization_response(grant_user="alice")


@app.post("/token")
def token():
    response = server.create_token_response()
    return response


@app.post("/register")
def register():
    return server.create_endpoint_response(Registration.ENDPOINT_NAME)


@app.post("/revoke")
def revoke():
    return server.create_endpoint_response(Revocation.ENDPOINT_NAME)


@app.post("/introspect")
def introspect():
    return server.create_endpoint_response(Introspection.ENDPOINT_NAME)


@app.post("/device_authorization")
def device_authorization():
    return server.create_endpoint_response(DeviceEndpoint.ENDPOINT_NAME)


@app.get("/device")
def device():
    devices[request.args["user_code"]]["granted"] = True
    return "granted"


@app.get("/jwks.json")
def jwks():
    return jsonify(keys=[state["key"].as_dict(private=False)])


@app.get("/control/rotate")
def rotate():
    new_key()
    return state["key"].kid


@app.get("/control/lifetime/<int:seconds>")
def lifetime(seconds):
    state["lifetime"] = seconds
    app.config["OAUTH2_TOKEN_EXPIRES_IN"] = {}
    server.register_token_generator("default", server.create_bearer_token_generator({
        **app.config, "OAUTH2_TOKEN_EXPIRES_IN": {name: seconds for name in
            ("authorization_code", "refresh_token", "client_credentials", Device.GRANT_TYPE)}}))
    return "set"


@app.post("/control/client/<name>")
def client(name):
    info = {"client_id": name, "public_key": request.get_data(as_text=True)}
    clients[name] = Client(info, {"token_endpoint_auth_method": "private_key_jwt"})
    return "registered"


@app.get("/control/forge")
def forge():
    kind, resource = request.args["kind"], request.args["resource"]
    now = int(time.time())
    claims = {"iss": ISSUER, "sub": "alice", "aud": resource, "iat": now, "exp": now + 600, "scope": "read"}
    key, header = state["key"], {"alg": "ES256", "kid": state["key"].kid, "typ": "at+jwt"}
    if kind == "audience":
        claims["aud"] = "https://other.example/mcp"
    if kind == "expired":
        claims["exp"] = now - 120
    if kind == "issuer":
        claims["iss"] = "https://evil.example"
    if kind == "key":
        key = ECKey.generate_key("P-256")
    if kind == "none":
        parts = [{**header, "alg": "none"}, claims]
        encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
        text = ".".join([*encoded, ""])
    else:
        text = jwt.encode(header, claims, key)
    values = {"access_token": text, "scope": "read", "expires_in": 600}
    tokens.append(Token("resource", "alice", values))
    return text


app.run("127.0.0.1", PORT, threaded=True)
