package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.storage.internals.log.LogConfig;

import java.util.HashMap;
import java.util.Map;

/**
 * What Kafka says of topic configs when a topic is created with them: {@code LogConfig.validate}, which the controller
 * calls, over a broker's defaults. With {@code names} (true) the answer has the names of all topic configs.
 */
final class ConfigsRequest {
    private ConfigsRequest() {
    }

    static ObjectNode run(JsonNode request) {
        ObjectNode answer = Json.object();
        if (request.path("names").asBoolean()) {
            ArrayNode names = answer.putArray("names");
            LogConfig.configNames().stream().sorted().forEach(names::add);
        }
        Map<String, Object> broker = new HashMap<>();
        LogConfig.configKeys().forEach((name, key) -> {
            if (key.defaultValue != null) {
                broker.put(name, key.defaultValue);
            }
        });
        boolean tiered = request.path("remoteStorage").asBoolean();
        ArrayNode refused = answer.putArray("refused");
        for (JsonNode one : request.path("configs")) {
            Map<String, String> config = new HashMap<>();
            one.properties().forEach(e -> config.put(e.getKey(), e.getValue().asText()));
            try {
                LogConfig.validate(Map.of(), config, broker, tiered);
                refused.addNull();
            } catch (ConfigException | InvalidConfigurationException e) {
                refused.add(e.toString());
            }
        }
        return answer;
    }
}
