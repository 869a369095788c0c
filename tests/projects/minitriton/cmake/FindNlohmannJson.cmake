# nlohmann json is headers only. JSON_INCLUDE_DIR is the folder that has `nlohmann`.
find_path(JSON_INCLUDE_DIR nlohmann/json.hpp DOC "The folder that has nlohmann/json.hpp")

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(NlohmannJson REQUIRED_VARS JSON_INCLUDE_DIR)

if(NlohmannJson_FOUND AND NOT TARGET nlohmann_json::nlohmann_json)
  add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
  set_target_properties(nlohmann_json::nlohmann_json PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${JSON_INCLUDE_DIR}")
endif()
mark_as_advanced(JSON_INCLUDE_DIR)
