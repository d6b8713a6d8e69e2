package classes;

import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;

/**
 * Without arguments: prints one line for each config of a topic and of a broker: "topic NAME" or "broker NAME", and type,
 * default and validator, with a tab between. With arguments, each NAME=VALUE of a topic: prints "accepted" or "refused"
 * for each ({@code LogConfig.validate}, which the controller calls).
 */
public final class Configs {
    private Configs() {
    }

    public static void main(String[] arguments) throws ReflectiveOperationException {
        for (String argument : arguments) {
            System.out.println(accepts(argument) ? "accepted" : "refused");
        }
        if (arguments.length == 0) {
            print("topic", LogConfig.configKeys());
            print("broker", AbstractKafkaConfig.CONFIG_DEF.configKeys());
        }
    }

    private static void print(String scope, Map<String, ConfigDef.ConfigKey> keys) {
        keys.values().forEach(key -> {
            Object given = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE ? "required" : key.defaultValue;
            System.out.println(scope + " " + key.name + "\t" + key.type + " " + given + " " + key.validator);
        });
    }

    /** The type of the second argument differs between releases; a Properties is of both. */
    private static boolean accepts(String argument) throws ReflectiveOperationException {
        String[] pair = argument.split("=", 2);
        Properties given = new Properties();
        given.setProperty(pair[0], pair[1]);
        Map<String, Object> broker = new HashMap<>();
        LogConfig.configKeys().forEach((name, key) -> {
            if (key.defaultValue != null) {
                broker.put(name, key.defaultValue);
            }
        });
        Method validate = Arrays.stream(LogConfig.class.getMethods())
            .filter(m -> m.getName().equals("validate") && m.getParameterCount() == 4).findFirst().orElseThrow();
        try {
            validate.invoke(null, Map.of(), given, broker, false);
            return true;
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof ConfigException || e.getCause() instanceof InvalidConfigurationException) {
                return false;
            }
            throw e;
        }
    }
}
