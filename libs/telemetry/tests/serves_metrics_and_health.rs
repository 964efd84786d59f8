//! One process: the recorder is global, so this is one test.

use std::net::SocketAddr;

use headwater_telemetry::{
    Health, Phase, Target, TelemetryConfig, TelemetryError, read_targets, start_metrics,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn metrics_and_health_are_served_on_any_port() {
    let health = Health::new();
    let target = Target::of("storage");
    let targets = tempfile::tempdir().unwrap();
    let off = start_metrics(&TelemetryConfig::default(), health.clone(), &target).await.unwrap();
    assert!(off.is_none(), "off by default");

    let config = TelemetryConfig {
        metrics_listen: "127.0.0.1:0".into(),
        targets_dir: targets.path().to_owned(),
        ..TelemetryConfig::default()
    };
    let server = start_metrics(&config, health.clone(), &target).await.unwrap().unwrap();
    metrics::describe_counter!("headwater_test_parts_total", "Parts of the test");
    assert_ne!(server.address().port(), 0);
    let found = read_targets(targets.path()).unwrap();
    assert_eq!(found.groups[0].targets, [server.address().to_string()]);

    let answer = get(server.address(), "/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 503") && answer.ends_with("starting"), "{answer}");
    assert!(get(server.address(), "/metrics").await.contains("headwater_ready 0"));
    let answer = get(server.address(), "/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "who starts is not to be killed: {answer}");
    health.set(Phase::Ready);
    let answer = get(server.address(), "/readyz").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("ready"), "{answer}");
    assert!(get(server.address(), "/metrics").await.contains("headwater_ready 1"));
    health.set(Phase::Draining);
    assert!(get(server.address(), "/readyz").await.starts_with("HTTP/1.1 503"));
    let answer = get(server.address(), "/healthz").await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("draining"), "{answer}");

    metrics::counter!("headwater_test_parts_total", "link" => "shm").increment(3);
    metrics::histogram!("headwater_test_part_seconds").record(0.0007);
    let text = get(server.address(), "/metrics").await;
    for line in [
        "# HELP headwater_test_parts_total Parts of the test",
        "headwater_test_parts_total{link=\"shm\"} 3",
        "headwater_test_part_seconds_bucket{le=\"0.0005\"} 0",
        "headwater_test_part_seconds_bucket{le=\"0.001\"} 1",
        "headwater_build_info{version=",
    ] {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }

    // Callers who ask for nothing hold up nobody, and are not kept.
    let mut silent = Vec::new();
    for _ in 0..300 {
        silent.push(TcpStream::connect(server.address()).await.unwrap());
    }
    assert!(get(server.address(), "/metrics").await.contains("headwater_build_info"));
    let is_open = |stream: &TcpStream| {
        let read = stream.try_read(&mut [0]);
        read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    let ended = async {
        while silent.iter().any(is_open) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), ended).await.expect("all are closed");

    let taken = TelemetryConfig { metrics_listen: server.address().to_string(), ..config };
    let error = start_metrics(&taken, health, &target).await.err().expect("a refusal");
    assert!(matches!(error, TelemetryError::Listen { .. }), "{error}");
    assert!(error.to_string().contains(&server.address().to_string()), "{error}");
}
