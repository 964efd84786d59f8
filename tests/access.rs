//! Nobody reads, renders or receives who should not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use headwater_receiver::ReceiverConfig;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

use crate::support;
use crate::support::fleet::Fleet;
use crate::support::proxy::Proxy;
use crate::support::trainer::Ranks;

const TOKEN: &str = "a token of more than sixteen characters";

/// A certificate authority with a folder of its own.
struct Authority {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(folder: &Path, name: &str) -> Self {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).expect("a certificate");
        fs::write(folder.join("ca.pem"), certificate.pem()).expect("a file");
        Self { folder, issuer: Issuer::new(params, key) }
    }

    /// A certificate for hosts, with commas between them, and the year in which it ends.
    fn sign(&self, name: &str, hosts: &str, ends: i32) {
        let key = KeyPair::generate().expect("a key");
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        let mut params = CertificateParams::new(hosts).expect("parameters");
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(ends, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        fs::write(self.folder.join(format!("{name}.pem")), certificate.pem()).expect("a file");
        fs::write(self.folder.join(format!("{name}.key")), key.serialize_pem()).expect("a file");
    }

    /// Lines of `[security]` that present a certificate and trust this authority.
    fn lines(&self, name: &str) -> Vec<String> {
        let file = |name: String| self.folder.join(name).display().to_string();
        vec![
            format!("ca_file = \"{}\"", file("ca.pem".to_owned())),
            format!("cert_file = \"{}\"", file(format!("{name}.pem"))),
            format!("key_file = \"{}\"", file(format!("{name}.key"))),
        ]
    }
}

fn token(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, format!("{text}\n")).expect("a file");
    format!("token_file = \"{}\"", path.display())
}

/// Lines of `[security]` as arguments.
fn arguments(lines: &[String]) -> Vec<String> {
    support::set_flags(lines.iter().map(|line| format!("security.{line}")))
}

/// Asks a storage node for a plan; what the program says when it is refused.
fn ask(storage: &str, lines: &[String]) -> Result<(), String> {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["plan", "--step", "0", "--batch", "1", "--dataset", "photos=photos"])
        .args(["--storage", storage, "--set", "receiver.worker_wait_ms=300"])
        .args(arguments(lines))
        .output()
        .expect("the program starts");
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8(output.stderr).expect("text")),
    }
}

#[track_caller]
fn refused(storage: &str, lines: &[String], why: &str) {
    let said = ask(storage, lines).expect_err("a refusal");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("headwater: ") && last.contains(why), "no `{why}` in: {said}");
    assert!(!said.contains("sixteen characters"), "the token is in: {said}");
}

#[test]
fn a_storage_node_answers_only_the_jobs_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Authority::new(folder.path(), "ours");
    ours.sign("node", "127.0.0.1", 3000);
    ours.sign("expired", "127.0.0.1", 2001);
    ours.sign("elsewhere", "storage.example", 3000);
    let theirs = Authority::new(folder.path(), "theirs");
    theirs.sign("node", "127.0.0.1", 3000);
    let token_ok = token(folder.path(), "token", TOKEN);
    let token_bad = token(folder.path(), "other", "another token of sixteen characters");
    let node = [ours.lines("node"), vec![token_ok.clone()]].concat();

    let mut fleet = Fleet::secured(support::data("photos/photos-000003.tar"), &node.join("\n"));
    let storage = fleet.storage().address.clone();
    ask(&storage, &node).expect("one of the job's own");
    refused(&storage, &ours.lines("node"), "the caller has no token");
    refused(&storage, &[ours.lines("node"), vec![token_bad]].concat(), "token is not this job's");
    let expired = [ours.lines("expired"), vec![token_ok.clone()]].concat();
    refused(&storage, &expired, "expired.pem: not valid by the authorities of");
    let foreign = [theirs.lines("node"), vec![token_ok.clone()]].concat();
    refused(&storage, &foreign, "UnknownIssuer");
    // Trusts us, and cannot be trusted by us.
    let stranger = [
        vec![ours.lines("node")[0].clone()],
        theirs.lines("node")[1..].to_vec(),
        vec![token_ok.clone()],
    ];
    refused(&storage, &stranger.concat(), "UnknownIssuer");
    refused(&storage, std::slice::from_ref(&token_ok), "storage node 127.0.0.1");
    let name = [node.clone(), vec!["server_name = \"storage.example\"".to_owned()]].concat();
    refused(&storage, &name, "storage.example");
    // A name that the certificate carries is as good as the address.
    let mut named = Fleet::secured(
        support::data("photos/photos-000003.tar"),
        &[ours.lines("elsewhere"), vec![token_ok]].concat().join("\n"),
    );
    ask(&named.storage().address.clone(), &name).expect("the node of that name");
}

#[test]
fn a_worker_renders_only_for_the_jobs_own_and_the_batches_are_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Authority::new(folder.path(), "ours");
    ours.sign("node", "127.0.0.1", 3000);
    let token_ok = token(folder.path(), "token", TOKEN);
    let lines = [ours.lines("node"), vec![token_ok]].concat();
    let shards = support::data("photos/photos-000003.tar");
    let two = ["--batches".to_owned(), "2".to_owned()];

    let streams: Vec<_> = [lines.clone(), Vec::new()]
        .into_iter()
        .map(|lines| {
            let mut fleet = Fleet::secured(&shards, &lines.join("\n"));
            // Over gRPC, so that all of it is encrypted.
            fleet.add_worker("local_files = \"off\"");
            let config = ReceiverConfig { world_size: 1, ..fleet.config() };
            let extra = [arguments(&lines), two.to_vec()].concat();
            let mut ranks = Ranks::start(&config, fleet.dir(), "rank", &extra);
            ranks.finish();
            ranks.stream()
        })
        .collect();
    assert_eq!(streams[0].len(), 2);
    assert!(streams[0] == streams[1], "batches differ with and without TLS");

    // A storage node for everybody, a worker for the job's own: the receiver is refused there.
    let mut open = Fleet::without_workers(&shards);
    let mut guarded = Fleet::secured(&shards, &lines.join("\n"));
    guarded.add_worker("");
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["receive", "--dataset", "photos=photos", "--batches", "1"])
        .args(["--storage", &open.storage().address.clone()])
        .args(["--workers", &guarded.worker(0).address.clone()])
        .args(["--set", "receiver.worker_wait_ms=1000"])
        .output()
        .expect("the program starts");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(!output.status.success() && said.contains("no augment worker for 1 s"), "{said}");
}

#[test]
fn token_and_certificates_are_read_again_when_they_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let first = Authority::new(folder.path(), "first");
    first.sign("node", "127.0.0.1", 3000);
    let second = Authority::new(folder.path(), "second");
    second.sign("node", "127.0.0.1", 3000);
    let live = folder.path().join("live");
    fs::create_dir(&live).expect("a folder");
    let install = |authority: &Authority, text: &str| {
        for name in ["ca.pem", "node.pem", "node.key"] {
            fs::copy(authority.folder.join(name), live.join(name)).expect("copied");
        }
        token(&live, "token", text)
    };
    let token_line = install(&first, TOKEN);
    let file = |name: &str| live.join(name).display().to_string();
    let lines = vec![
        format!("ca_file = \"{}\"", file("ca.pem")),
        format!("cert_file = \"{}\"", file("node.pem")),
        format!("key_file = \"{}\"", file("node.key")),
        token_line,
    ];
    let mut fleet = Fleet::secured(support::data("photos/photos-000003.tar"), &lines.join("\n"));
    let storage = fleet.storage().address.clone();
    let old = token(folder.path(), "old", TOKEN);
    let before = [first.lines("node"), vec![old]].concat();
    ask(&storage, &before).expect("before the change");

    install(&second, "the next token of the same job");
    ask(&storage, &lines).expect("after the change");
    refused(&storage, &before, "UnknownIssuer");
}

#[test]
fn wrong_files_are_named_and_never_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Authority::new(folder.path(), "ours");
    ours.sign("node", "127.0.0.1", 3000);
    ours.sign("other", "127.0.0.1", 3000);
    let lines = ours.lines("node");
    let nobody = "127.0.0.1:1";
    refused(nobody, &lines[..2], "security.key_file is missing");
    refused(nobody, &[token(folder.path(), "short", "secret")], "16 to 4096 characters");
    refused(nobody, &[token(folder.path(), "long", &"x".repeat(4097))], "16 to 4096 characters");
    let large = folder.path().join("large.pem");
    fs::write(&large, vec![b'x'; (1 << 20) + 1]).expect("a file");
    let ca = format!("ca_file = \"{}\"", large.display());
    refused(nobody, &[vec![ca], lines[1..].to_vec()].concat(), "larger than 1 MiB");
    let path = folder.path().join("none").display().to_string();
    refused(nobody, &[format!("token_file = \"{path}\"")], &path);
    let mixed = [lines[0].clone(), lines[1].clone(), ours.lines("other")[2].clone()];
    refused(nobody, &mixed, "does not go with");
    let swapped = [lines[0].clone(), lines[2].replace("key_file", "cert_file"), lines[2].clone()];
    refused(nobody, &swapped, "no certificate in PEM form");
}

/// Two batches over the tcp link; what went over its wire, and the batches.
fn overheard(lines: &[String]) -> (Vec<u8>, support::trainer::Stream) {
    let mut fleet = Fleet::secured(support::data("photos/photos-000003.tar"), &lines.join("\n"));
    fleet.add_worker("links = [\"tcp\"]");
    let port = Proxy::free_port();
    let wire = Proxy::new(&format!("127.0.0.2:{port}"), &format!("127.0.0.1:{port}"));
    let config = ReceiverConfig {
        world_size: 1,
        batch_samples: 2,
        links: vec!["tcp".to_owned()],
        ..fleet.config()
    };
    let keys =
        [format!("links.tcp_listen=127.0.0.1:{port}"), "links.tcp_advertise=127.0.0.2".to_owned()];
    let two = ["--batches".to_owned(), "2".to_owned()];
    let keys = support::set_flags(keys);
    let extra: Vec<String> = arguments(lines).into_iter().chain(keys).chain(two).collect();
    let mut ranks = Ranks::start(&config, fleet.dir(), "rank", &extra);
    ranks.finish();
    (wire.weather.heard(), ranks.stream())
}

#[test]
fn data_on_the_tcp_link_is_encrypted_when_asked_and_the_batches_are_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Authority::new(folder.path(), "ours");
    ours.sign("node", "127.0.0.1,127.0.0.2", 3000);
    let lines = ours.lines("node");
    let encrypts = [lines.clone(), vec!["tcp_tls = true".to_owned()]].concat();
    let (plain, batches) = overheard(&lines);
    let (cipher, same) = overheard(&encrypts);
    assert_eq!(batches.len(), 2);
    assert!(batches == same, "batches differ with and without encryption");
    let holds = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|at| at == part);
    assert!(plain.starts_with(b"HWTC"), "the link's own first word");
    assert!(cipher.starts_with(&[0x16, 0x03]) && !holds(&cipher, b"HWTC"), "not TLS");
    // Pixels that went by in the open are nowhere in what went by encrypted.
    let pixels = &plain[plain.len() / 2..][..64];
    assert!(holds(&plain, pixels) && !holds(&cipher, pixels));

    // A worker that insists takes nothing from a receiver that does not encrypt.
    let mut fleet = Fleet::secured(support::data("photos/photos-000003.tar"), &encrypts.join("\n"));
    fleet.add_worker("links = [\"tcp\"]");
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .args(["receive", "--dataset", "photos=photos", "--batches", "1", "--links", "tcp"])
        .args(["--storage", &fleet.storage().address.clone()])
        .args(["--workers", &fleet.worker(0).address.clone()])
        .args(["--set", "receiver.worker_wait_ms=6000"])
        .args(arguments(&lines))
        .output()
        .expect("the program starts");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(!output.status.success() && said.contains("is not encrypted"), "{said}");
}

#[test]
fn secrets_are_in_no_log_and_in_no_help() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Authority::new(folder.path(), "ours");
    ours.sign("node", "127.0.0.1", 3000);
    let lines = [ours.lines("node"), vec![token(folder.path(), "token", TOKEN)]].concat();
    let mut fleet = Fleet::secured(support::data("photos/photos-000003.tar"), &lines.join("\n"));
    fleet.add_worker("");
    let config = ReceiverConfig { world_size: 1, ..fleet.config() };
    let extra =
        [arguments(&lines), ["--batches", "1", "--log", "trace"].map(str::to_owned).to_vec()];
    let mut ranks = Ranks::start(&config, fleet.dir(), "rank", &extra.concat());
    ranks.finish();
    let key = fs::read_to_string(ours.folder.join("node.key")).expect("a key");
    let key_line = key.lines().nth(1).expect("a line of base64").to_owned();
    let rank = fs::read_to_string(fleet.dir().join("rank-rank-0.log")).expect("a log");
    assert!(rank.contains("TRACE"), "the rank's log is not as talkative as it can be");
    for log in [fleet.storage().log(), fleet.worker(0).log(), rank] {
        assert!(!log.is_empty());
        for secret in [TOKEN, &key_line, "SessionKey([", "session_key: [", "session_key: b"] {
            assert!(!log.contains(secret), "`{secret}` is in a log");
        }
    }
    for verb in [
        &["--help"][..],
        &["storage", "--help"],
        &["augment", "--help"],
        &["receive", "--help"],
        &["config"],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
            .args(verb)
            .args(if verb == ["config"] { arguments(&lines) } else { Vec::new() })
            .output()
            .expect("the program starts");
        let said = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success() && !said.contains(TOKEN), "{verb:?}: {said}");
    }
}

#[test]
fn one_side_with_tls_and_the_other_without_is_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Authority::new(folder.path(), "ours");
    ours.sign("node", "127.0.0.1", 3000);
    let lines = ours.lines("node");
    let shards = || support::data("photos/photos-000003.tar");
    let mut encrypted = Fleet::secured(shards(), &lines.join("\n"));
    let with_token = [token(folder.path(), "token", TOKEN)];
    refused(
        &encrypted.storage().address.clone(),
        &[],
        "a storage node with TLS that this process has not",
    );
    refused(
        &encrypted.storage().address.clone(),
        &with_token,
        "the files of [security] that it has",
    );
    let mut plain = Fleet::secured(shards(), "");
    refused(&plain.storage().address.clone(), &lines, "it speaks no TLS");
}

/// The doctor's line on the certificate, with these lines of `[security]` and keys.
fn certificate(lines: &[String], keys: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .arg("doctor")
        .args(arguments(lines))
        .args(support::set_flags(keys.iter().copied()))
        .output()
        .expect("the program starts");
    let said = String::from_utf8(output.stdout).expect("text");
    let line = said.lines().find(|line| line.contains("certificate: ")).unwrap_or_default();
    (line.starts_with("wrong"), line.to_owned())
}

#[test]
fn the_doctor_says_whether_a_certificate_carries_the_name_that_is_called() {
    let folder = tempfile::tempdir().expect("a folder");
    let ours = Authority::new(folder.path(), "ours");
    ours.sign("node", "rank.example", 3000);
    let lines = ours.lines("node");
    let encrypts = [lines.clone(), vec!["tcp_tls = true".to_owned()]].concat();
    let at = |host: &str| format!("links.tcp_advertise={host}");
    let (is_wrong, line) = certificate(&encrypts, &[&at("rank.example")]);
    assert!(!is_wrong && line.contains("carries rank.example"), "{line}");
    let (is_wrong, line) = certificate(&encrypts, &[&at("other.example")]);
    assert!(
        is_wrong && line.contains("other.example") && line.contains("security.server_name"),
        "{line}"
    );
    // Without `tcp_tls`, nobody calls a rank.
    let (is_wrong, line) = certificate(&lines, &[&at("other.example")]);
    assert!(!is_wrong && line.starts_with("absent"), "{line}");
    let named = [encrypts, vec!["server_name = \"rank.example\"".to_owned()]].concat();
    let (is_wrong, line) = certificate(&named, &[&at("other.example")]);
    assert!(!is_wrong && line.contains("carries rank.example"), "{line}");
    assert_eq!(certificate(&[], &[]), (false, String::new()));
}
