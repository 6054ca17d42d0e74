/** Liveness and readiness of the monitor's port: plain text, without quotas. */

/** Path → status line and body. Ready means that the catalogue is loaded and no shutdown has begun. */
export const HEALTH_CHECKS: Record<string, (isReady: boolean) => [status: string, text: string]> = {
  '/healthz': () => ['200 OK', 'ok'],
  '/readyz': (isReady) => (isReady ? ['200 OK', 'ready'] : ['503 Service Unavailable', 'not ready']),
}
