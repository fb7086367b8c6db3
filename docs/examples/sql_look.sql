SELECT c.queue, c.token, c.owner, s.expires_at
FROM recipes_contender c JOIN recipes_session s ON s.id = c.session
ORDER BY c.queue, c.token;
