//! Locks in a SQLite file.
//!
//! They exclude the processes of one host only. One that is stopped amid a transaction keeps all others from an answer.
//! Whoever may write the file can break its locks. Who waits has to ask again and again, and is served in no order.
use std::{error::Error as StdError, path::Path, path::PathBuf, sync::Arc, time::Duration};

use lock_core::{
    Attempt, Backend, Capabilities, Claim, Clock, Contention, Error, ErrorKind, Extension, Fencing, FencingToken,
    Grant, Holder, LockName, LockUrl, Mode, Release, Restart, Result, Scope, async_trait,
};
use rusqlite::{Connection, ErrorCode, OptionalExtension, Params, TransactionBehavior, params};
use tokio::{sync::Mutex, task::spawn_blocking};

type Sql<T> = Result<T, Box<dyn StdError + Send + Sync>>;

/// Locks in a SQLite file.
#[derive(Debug)]
pub struct SqliteBackend {
    path: PathBuf,
    connection: Arc<Mutex<Option<Connection>>>,
}

impl SqliteBackend {
    /// Locks in the file at `path`. Nothing is opened before the first call, which makes the file if there is none.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), connection: Arc::default() }
    }

    /// Locks in the file of a URL such as `sqlite:/var/lib/locks.db`, or InvalidConfig where it names none.
    pub fn from_url(url: &LockUrl) -> Result<Self> {
        let mut settings = url.settings();
        let path = Some(settings.path()).filter(|path| !path.is_empty());
        settings.finish()?;
        path.map(Self::new).ok_or_else(|| Error::new(ErrorKind::InvalidConfig, "sqlite: URL: no path; add /file.db"))
    }

    /// Runs `sql` in a transaction, with the time and only those locks that are held then. Calls take turns, and what
    /// has begun goes on when its future is dropped: no call of a claim is still on its way when its release begins.
    async fn run<T: Send + 'static>(&self, sql: impl FnOnce(&Connection, u64) -> Sql<T> + Send + 'static) -> Result<T> {
        let (mut kept, path) = (Arc::clone(&self.connection).lock_owned().await, self.path.clone());
        let running = spawn_blocking(move || {
            let mut connection = kept.take().map_or_else(|| open(&path), Ok)?;
            let locks = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let now = Clock::system().now().since_boot().as_nanos().try_into()?;
            locks.execute("DELETE FROM locks WHERE until <= ?1", [now])?;
            let answer = sql(&locks, now)?;
            locks.commit()?;
            *kept = Some(connection);
            Ok(answer)
        });
        running.await.map_err(Into::into).flatten().map_err(|failure: Box<dyn StdError + Send + Sync>| {
            let code = failure.downcast_ref().and_then(rusqlite::Error::sqlite_error_code);
            let refused = matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::NotADatabase | ErrorCode::ReadOnly));
            // Busy, full, ended by the runtime: what became of the call is not known.
            let kind = if refused { ErrorKind::Denied } else { ErrorKind::Unavailable };
            Error::new(kind, format!("{}: {failure}", self.path.display())).with_source(failure)
        })
    }
}

fn open(path: &Path) -> Sql<Connection> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let mut connection = Connection::open(path)?;
    // Only speed depends on it: where several come to a new file at once, it is left to a later one.
    let _ = connection.execute_batch("PRAGMA busy_timeout = 0; PRAGMA journal_mode = wal");
    // Evenly, and less long than the core waits. SQLite's own pauses grow, so that newcomers overtake who waits.
    connection.busy_handler(Some(|tries| {
        std::thread::park_timeout(Duration::from_millis(2));
        tries < 2000
    }))?;
    // A token is on disk before it is given out ("extra"). A reboot ends all grants: no holder outlives it.
    connection.execute_batch(
        "PRAGMA synchronous = extra; BEGIN IMMEDIATE; CREATE TABLE IF NOT EXISTS fence AS SELECT 0 AS token, '' AS boot;
         CREATE TABLE IF NOT EXISTS locks (name TEXT PRIMARY KEY, owner TEXT, token INTEGER, until INTEGER, label TEXT);
         CREATE INDEX IF NOT EXISTS ends ON locks (until);
         CREATE TRIGGER IF NOT EXISTS granted AFTER INSERT ON locks BEGIN UPDATE fence SET token = NEW.token; END;
         CREATE TRIGGER IF NOT EXISTS rebooted AFTER UPDATE OF boot ON fence BEGIN DELETE FROM locks; END; COMMIT",
    )?;
    connection.execute("UPDATE fence SET boot = ?1 WHERE boot <> ?1", [boot])?;
    Ok(connection)
}

#[async_trait]
impl Backend for SqliteBackend {
    fn capabilities(&self) -> Capabilities {
        let mut promise = Capabilities::new(Scope::Host, "all use one file on a local disk, and nobody replaces it");
        (promise.fencing, promise.restart) = (Fencing::Durable, Restart::TokensNoHolders);
        promise.can_force_release = true;
        promise
    }

    async fn try_acquire(&self, claim: &Claim) -> Result<Attempt> {
        if claim.mode != Mode::Exclusive {
            return Err(Error::new(ErrorKind::Unsupported, format!("{:?} locks are not kept in SQLite", claim.mode)));
        }
        let claim = claim.clone();
        self.run(move |locks, now| {
            let (owner, above) = (claim.owner.to_string(), claim.above.map_or(0, FencingToken::as_u64));
            let insert = "INSERT OR IGNORE INTO locks SELECT ?1, ?2, max(token, ?3) + 1, ?4, ?5 FROM fence";
            locks.execute(insert, params![claim.name.as_str(), owner, above, now, claim.about.label])?;
            let left = holder(locks, now, claim.name.clone())?.and_then(|holder| holder.remaining).unwrap_or_default();
            let contended = Attempt::Contended(Contention::new().with_retry_after(left));
            Ok(renew(locks, now, &claim)?.map_or(contended, Attempt::Granted))
        })
        .await
    }

    async fn extend(&self, claim: &Claim) -> Result<Extension> {
        let claim = claim.clone();
        let renewed = self.run(move |locks, now| renew(locks, now, &claim)).await?;
        Ok(renewed.map_or(Extension::Lost, |grant| Extension::extended(grant.ttl)))
    }

    async fn release(&self, claim: &Claim) -> Result<Release> {
        let (name, owner) = (claim.name.to_string(), claim.owner.to_string());
        self.run(move |locks, _| end(locks, "owner = ?2", [name, owner])).await
    }

    async fn inspect(&self, name: &LockName) -> Result<Option<Holder>> {
        let name = name.clone();
        self.run(move |locks, now| holder(locks, now, name)).await
    }

    async fn force_release(&self, name: &LockName, only: Option<FencingToken>) -> Result<Release> {
        let (name, only) = (name.to_string(), only.map(FencingToken::as_u64));
        self.run(move |locks, _| end(locks, "token = ifnull(?2, token)", params![name, only])).await
    }
}

/// Lets the claim's grant, if there is one, live for at least another ttl.
fn renew(locks: &Connection, now: u64, claim: &Claim) -> Sql<Option<Grant>> {
    let renew = "UPDATE locks SET until = max(until, ?3) WHERE name = ?1 AND owner = ?2 RETURNING token, until - ?4";
    let own = params![claim.name.as_str(), claim.owner.to_string(), now + u64::try_from(claim.ttl.as_nanos())?, now];
    let renewed = locks.query_row(renew, own, |row| row.try_into()).optional()?;
    renewed.map(|(token, left)| Ok(Grant::new(FencingToken::new(token)?, Duration::from_nanos(left)))).transpose()
}

fn end(locks: &Connection, condition: &str, params: impl Params) -> Sql<Release> {
    let ended = locks.execute(&format!("DELETE FROM locks WHERE name = ?1 AND {condition}"), params)?;
    Ok(if ended > 0 { Release::Released } else { Release::NotHeld })
}

fn holder(locks: &Connection, now: u64, name: LockName) -> Sql<Option<Holder>> {
    let select = "SELECT owner, token, until - ?2, label FROM locks WHERE name = ?1";
    let found = locks.query_row(select, params![name.as_str(), now], |row| row.try_into()).optional()?;
    let Some((owner, token, left, label)): Option<(String, _, _, _)> = found else { return Ok(None) };
    let mut holder = Holder::new(name, owner).with_token(FencingToken::new(token)?);
    (holder.remaining, holder.label) = (Some(Duration::from_nanos(left)), label);
    Ok(Some(holder))
}
