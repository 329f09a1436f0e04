//! Who may connect? Everyone, or only clients that know the password (SCRAM-SHA-256).
//!
//! The server keeps no password, only its salted hash, made once at startup. A wrong user name
//! fails exactly as a wrong password does, with the same salt and the same work.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use pgwire::api::DefaultClient;
use pgwire::api::auth::sasl::SASLState;
use pgwire::api::auth::sasl::scram::{
    SCRAM_ITERATIONS, ScramAuth, gen_salted_password, random_nonce,
};
use pgwire::api::auth::sasl::{SCRAM_SHA_256_METHOD, SCRAM_SHA_256_PLUS_METHOD};
use pgwire::api::auth::{AuthSource, LoginInfo, Password};
use pgwire::error::PgWireResult;
use pgwire::messages::startup::{Authentication, PasswordMessageFamily};
use pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};

use super::wire::{Wire, check_sasl_initial};
use crate::failure::Failure;

/// The hashed password, and the user it belongs to.
pub(crate) struct Verifier {
    user: Option<String>,
    salt: Vec<u8>,
    hash: Vec<u8>,
    /// The hash used for wrong user names: no password has it.
    decoy: Vec<u8>,
}

impl Verifier {
    pub(crate) fn new(user: Option<String>, password: &str) -> Self {
        let salt = random_nonce().into_bytes();
        let hash = gen_salted_password(password, &salt, SCRAM_ITERATIONS);
        let decoy = gen_salted_password(&random_nonce(), &salt, SCRAM_ITERATIONS);
        Self {
            user,
            salt,
            hash,
            decoy,
        }
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl AuthSource for Verifier {
    async fn get_password(&self, login: &LoginInfo) -> PgWireResult<Password> {
        let known = self.user.is_none() || self.user.as_deref() == login.user();
        let hash = if known { &self.hash } else { &self.decoy };
        Ok(Password::new(Some(self.salt.clone()), hash.clone()))
    }
}

/// Runs the SCRAM exchange with a client that has sent its startup message.
///
/// `cert_pem` binds the exchange to the TLS connection, if the certificate's algorithm allows it.
pub(crate) async fn authenticate(
    wire: &mut Wire,
    client: &DefaultClient<()>,
    verifier: &Arc<Verifier>,
    cert_pem: Option<&[u8]>,
) -> Result<(), Failure> {
    let mut scram = ScramAuth::new(Arc::clone(verifier) as Arc<dyn AuthSource>);
    if let Some(cert_pem) = cert_pem.filter(|_| wire.secure)
        && let Err(error) = scram.configure_certificate(cert_pem)
    {
        log::debug!("no channel binding: {error}");
    }
    let mut mechanisms = vec![SCRAM_SHA_256_METHOD.to_owned()];
    if scram.supports_channel_binding() {
        mechanisms.push(SCRAM_SHA_256_PLUS_METHOD.to_owned());
    }
    wire.send(&authentication(Authentication::SASL(mechanisms.clone())))
        .await?;

    let first = answer(wire).await?;
    if let PasswordMessageFamily::Raw(body) = &first {
        check_sasl_initial(body)?;
    }
    let first = first.into_sasl_initial_response()?;
    if !mechanisms.contains(&first.auth_method) {
        let method = first.auth_method;
        return Err(Failure::fatal(
            "08P01",
            format!("unknown SASL mechanism {method:?}"),
        ));
    }
    check_binding(
        &first.auth_method,
        first.data.as_deref().unwrap_or_default(),
        scram.supports_channel_binding(),
    )?;
    let first = PasswordMessageFamily::SASLInitialResponse(first);
    let state = SASLState::ScramClientFirstReceived;
    let (challenge, state) = scram.process_scram_message(client, first, &state).await?;
    wire.send(&authentication(challenge)).await?;

    let last = PasswordMessageFamily::SASLResponse(answer(wire).await?.into_sasl_response()?);
    let (outcome, _) = scram.process_scram_message(client, last, &state).await?;
    wire.put(&authentication(outcome))?;
    Ok(())
}

/// Checks that the client's channel-binding flag fits the mechanism it chose and the mechanisms
/// the server offered (RFC 5802, section 6). The flag `y` says that the client could bind but was
/// offered no binding. If the server did offer binding, a third party has removed the offer.
fn check_binding(mechanism: &str, first: &[u8], offered: bool) -> Result<(), Failure> {
    let flag = first.split(|byte| *byte == b',').next().unwrap_or_default();
    let plus = mechanism == SCRAM_SHA_256_PLUS_METHOD;
    let refused = match flag {
        b"p=tls-server-end-point" if plus => return Ok(()),
        b"n" if !plus => return Ok(()),
        b"y" if !plus && !offered => return Ok(()),
        b"y" if !plus => {
            "the client supports channel binding, and thinks that the server does not: \
             somebody in between may have changed the offer"
        }
        _ if plus => "SCRAM-SHA-256-PLUS binds to the channel by tls-server-end-point",
        _ if flag.starts_with(b"p=") => "SCRAM-SHA-256 has no channel binding",
        _ => "a SCRAM message begins with n, y or p=tls-server-end-point",
    };
    Err(Failure::fatal("28000", refused))
}

async fn answer(wire: &mut Wire) -> Result<PasswordMessageFamily, Failure> {
    match wire.next().await {
        Some(Ok(PgWireFrontendMessage::PasswordMessageFamily(message))) => Ok(message),
        Some(Ok(_)) => Err(Failure::fatal("08P01", "expected a SASL response")),
        Some(Err(error)) => Err(Failure::from(error).into_fatal()),
        None => Err(Failure::fatal(
            "08006",
            "the client left while authenticating",
        )),
    }
}

pub(crate) fn authentication(message: Authentication) -> PgWireBackendMessage {
    PgWireBackendMessage::Authentication(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_channel_binding_flag_fits_the_offer_and_the_choice() {
        let (plain, plus) = (SCRAM_SHA_256_METHOD, SCRAM_SHA_256_PLUS_METHOD);
        let bound = "p=tls-server-end-point,,n=,r=x";
        for (mechanism, first, offered, fits) in [
            (plain, "n,,n=,r=x", true, true),
            (plain, "n,,n=,r=x", false, true),
            (plain, "y,,n=,r=x", false, true),
            (plain, "y,,n=,r=x", true, false),
            (plain, bound, true, false),
            (plus, bound, true, true),
            (plus, "p=tls-unique,,n=,r=x", true, false),
            (plus, "n,,n=,r=x", true, false),
            (plus, "y,,n=,r=x", true, false),
            (plain, "", true, false),
            (plain, "nn,,n=,r=x", true, false),
        ] {
            let checked = check_binding(mechanism, first.as_bytes(), offered);
            assert_eq!(checked.is_ok(), fits, "{mechanism} {first} {offered}");
        }
    }
}
